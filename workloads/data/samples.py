"""Samples of a fixed length from indexed documents, in an order that (seed, epoch) decides.

As Megatron-LM's GPTDataset: the documents of an epoch are shuffled and laid end to end, cut into
samples of `sequence` tokens and one more to predict, and the samples are shuffled. The order does
not know the layout of ranks: any layout trains on the same batches.
"""

import numpy as np
from numpy.typing import NDArray

from lockstep.workloads.data.indexed import IndexedDataset, IndexedError


class Samples:
    """Samples without end, epoch after epoch.

    Raises:
        IndexedError: There are not enough tokens for one sample.
    """

    def __init__(self, documents: IndexedDataset, sequence: int, seed: int) -> None:
        self._documents = documents
        self._sequence = sequence
        self._seed = seed
        total = int(documents.lengths.sum())
        self.per_epoch = (total - 1) // sequence
        if self.per_epoch < 1:
            raise IndexedError(f"{total} tokens are too few for a sample of {sequence + 1}")
        self._epoch = -1
        self._order = self._ends = self._shuffled = np.empty(0, dtype=np.int64)

    def sample(self, number: int) -> NDArray[np.int64]:
        """Token ids, (sequence + 1), of the sample that comes as `number` from the start."""
        epoch, place = divmod(number, self.per_epoch)
        if epoch != self._epoch:
            self._begin(epoch)
        begin = int(self._shuffled[place]) * self._sequence
        wanted = self._sequence + 1
        document = int(np.searchsorted(self._ends, begin, side="right"))
        start = begin - (int(self._ends[document - 1]) if document else 0)
        parts: list[NDArray[np.int64]] = []
        while wanted > 0:
            part = self._documents.tokens(int(self._order[document]), start, start + wanted)
            parts.append(part)
            wanted -= part.size
            document, start = document + 1, 0
        return np.concatenate(parts)

    def batch(self, first: int, count: int) -> NDArray[np.int64]:
        """Token ids, (count, sequence + 1), of consecutive samples."""
        return np.stack([self.sample(number) for number in range(first, first + count)])

    def _begin(self, epoch: int) -> None:
        dice = np.random.default_rng([self._seed, epoch])
        self._order = dice.permutation(len(self._documents))
        self._ends = np.cumsum(self._documents.lengths[self._order])
        self._shuffled = dice.permutation(self.per_epoch)
        self._epoch = epoch
