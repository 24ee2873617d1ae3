"""Megatron's indexed token files: `.bin` holds the tokens, `.idx` where each sequence begins.

Format: Megatron-LM core/datasets/indexed_dataset.py; MLPerf's C4 is of this form. `.idx` is the
magic, version (u64), token type (u8), numbers of sequences and of document bounds (u64 each), then
lengths in tokens (i32), offsets in bytes (i64) and the sequence at which each document begins
(i64), one more than there are documents.
"""

from collections.abc import Iterable
from pathlib import Path
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from lockstep.collector.contract.whole_file import replacing
from lockstep.workloads.spec import DataError

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
HEADER = Struct("<9sQBQQ")
DTYPES: dict[int, type[np.generic]] = {
    1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.float64, 7: np.float32,
    8: np.uint16,
}  # fmt: skip
"""Token types by code; only whole numbers are tokens."""
SMALL_VOCABULARY = 65500
"""Below it Megatron stores tokens in two bytes."""


class IndexedError(DataError):
    """A dataset file is missing or broken; the message names the file and the field."""


class IndexedDataset:
    """Documents of tokens, mapped into memory and never copied whole.

    Args:
        prefix: The files' path without `.bin` and `.idx`.

    Raises:
        IndexedError: A file cannot be read, or the two do not fit together.
    """

    def __init__(self, prefix: Path) -> None:
        index = prefix.with_name(f"{prefix.name}.idx")
        tokens = prefix.with_name(f"{prefix.name}.bin")
        try:
            raw = np.memmap(index, dtype=np.uint8, mode="r")
            size = tokens.stat().st_size
        except (OSError, ValueError) as error:
            raise IndexedError(f"cannot read {index} and {tokens.name}: {error}") from error
        kind, sequences, bounds = _header(index, raw[: HEADER.size].tobytes())
        lengths, offsets, documents = _tables(index, raw, sequences, bounds)
        _check(index, kind, lengths, offsets, documents, size)
        self._tokens = np.memmap(tokens, dtype=kind, mode="r") if size else np.empty(0, dtype=kind)
        places = np.concatenate((offsets // kind.itemsize, [size // kind.itemsize]))
        self._starts = places[documents]

    def __len__(self) -> int:
        """Number of documents."""
        return len(self._starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each document."""
        return np.diff(self._starts)

    def tokens(self, document: int, first: int = 0, last: int | None = None) -> NDArray[np.int64]:
        """Tokens `first` to `last` (exclusive) of a document."""
        begin, end = self._starts[document : document + 2]
        stop = end if last is None else min(begin + last, end)
        return np.asarray(self._tokens[begin + first : stop], dtype=np.int64)


def write(prefix: Path, documents: Iterable[NDArray[np.int64]], vocabulary: int) -> None:
    """Write documents of one sequence each; the index comes last, so that half is never read.

    Raises:
        IndexedError: A token does not fit the vocabulary.
        OSError: The files cannot be written.
    """
    kind = np.dtype(np.uint16 if vocabulary < SMALL_VOCABULARY else np.int32)
    lengths: list[int] = []
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with prefix.with_name(f"{prefix.name}.bin").open("wb") as stream:
        for number, document in enumerate(documents):
            if document.size and not 0 <= document.min() <= document.max() < vocabulary:
                raise IndexedError(f"document {number} has a token outside 0 to {vocabulary - 1}")
            stream.write(document.astype(kind).tobytes())
            lengths.append(document.size)
    ends = np.cumsum(lengths, dtype=np.int64) * kind.itemsize
    offsets = np.concatenate((np.zeros(1, np.int64), ends))[: len(lengths)]
    code = next(code for code, known in DTYPES.items() if np.dtype(known) == kind)
    with replacing(prefix.with_name(f"{prefix.name}.idx")) as stream:
        stream.write(HEADER.pack(MAGIC, VERSION, code, len(lengths), len(lengths) + 1))
        stream.write(np.asarray(lengths, np.int32).tobytes())
        stream.write(offsets.tobytes())
        stream.write(np.arange(len(lengths) + 1, dtype=np.int64).tobytes())


def _header(index: Path, raw: bytes) -> tuple[np.dtype[np.generic], int, int]:
    if len(raw) < HEADER.size:
        raise IndexedError(f"{index} has {len(raw)} bytes; the header alone has {HEADER.size}")
    magic, version, code, sequences, bounds = HEADER.unpack(raw)
    if magic != MAGIC:
        raise IndexedError(f"{index}: magic is {magic!r}; it must be {MAGIC!r}")
    if version != VERSION:
        raise IndexedError(f"{index}: version is {version}; this reads version {VERSION}")
    if code not in DTYPES or not np.issubdtype(DTYPES[code], np.integer):
        raise IndexedError(f"{index}: token type is {code}; it must be one of 1 to 5 and 8")
    return np.dtype(DTYPES[code]), sequences, bounds


def _tables(
    index: Path, raw: NDArray[np.uint8], sequences: int, bounds: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    needed = HEADER.size + 12 * sequences + 8 * bounds
    # One more byte a sequence is Megatron's optional table of modes.
    if raw.size not in (needed, needed + sequences):
        raise IndexedError(
            f"{index} has {raw.size} bytes; {sequences} sequences and {bounds} document bounds"
            f" need {needed}"
        )
    one, two = HEADER.size + 4 * sequences, HEADER.size + 12 * sequences
    lengths = np.frombuffer(raw, np.int32, sequences, HEADER.size)
    offsets = np.frombuffer(raw, np.int64, sequences, one)
    return lengths, offsets, np.frombuffer(raw, np.int64, bounds, two)


def _check(
    index: Path,
    kind: np.dtype[np.generic],
    lengths: NDArray[np.int32],
    offsets: NDArray[np.int64],
    documents: NDArray[np.int64],
    size: int,
) -> None:
    if lengths.size and lengths.min() < 0:
        raise IndexedError(f"{index}: length of sequence {int(lengths.argmin())} is negative")
    ends = np.cumsum(lengths, dtype=np.int64) * kind.itemsize
    wrong = np.flatnonzero(offsets != ends - lengths.astype(np.int64) * kind.itemsize)
    if wrong.size:
        raise IndexedError(f"{index}: offset of sequence {int(wrong[0])} is {offsets[wrong[0]]}")
    total = int(ends[-1]) if ends.size else 0
    if total != size:
        raise IndexedError(f"{index} describes {total} bytes of tokens; the .bin has {size}")
    ordered = documents.size > 0 and bool((np.diff(documents) >= 0).all())
    if not ordered or documents[0] != 0 or documents[-1] != lengths.size:
        raise IndexedError(f"{index}: document bounds do not go from 0 to {lengths.size}")


# Samples of a fixed length from indexed documents, in an order that (seed, epoch) decides.
#
# As Megatron-LM's GPTDataset: the documents of an epoch are shuffled and laid end to end, cut into
# samples of `sequence` tokens and one more to predict, and the samples are shuffled. The order does
# not know the layout of ranks: any layout trains on the same batches.


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
        epoch, position = divmod(number, self.per_epoch)
        if epoch != self._epoch:
            self._begin(epoch)
        begin = int(self._shuffled[position]) * self._sequence
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
