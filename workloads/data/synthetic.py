"""Synthetic datasets in Megatron's files, of a known least loss."""

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workloads.data.copying import CopySource
from workloads.data.indexed import write
from workloads.data.markov import MarkovSource

MAX_SAMPLES = 16384
"""Samples of an epoch at most; a longer run sees them again in another order."""
BLOCK_TOKENS = 1 << 16
FIRST_UNSEEN = 1 << 32
"""A document of this number and above is never trained on."""


class Source(Protocol):
    """Makes documents of tokens."""

    @property
    def sequences_per_document(self) -> int:
        """Samples that one document is long."""
        ...

    @property
    def entropy_rate_nats(self) -> float:
        """The least achievable loss per token."""
        ...

    def documents(self, first: int, count: int, length: int) -> NDArray[np.int64]:
        """Token ids, (count, length)."""
        ...


SOURCES: dict[str, type[MarkovSource] | type[CopySource]] = {
    source.name: source for source in (MarkovSource, CopySource)
}
"""By name."""


def write_synthetic(
    prefix: Path, source: Source, samples: int, sequence: int, vocabulary: int, first: int = 0
) -> None:
    """Write enough documents for so many samples, or MAX_SAMPLES, from a document on.

    Raises:
        OSError: The files cannot be written.
    """
    length = sequence * source.sequences_per_document
    # The last sample predicts one token of a document after it.
    count = min(samples, MAX_SAMPLES) // source.sequences_per_document + 2
    block = max(1, BLOCK_TOKENS // length)
    documents = (
        document
        for done in range(0, count, block)
        for document in source.documents(first + done, min(block, count - done), length)
    )
    write(prefix, documents, vocabulary)
