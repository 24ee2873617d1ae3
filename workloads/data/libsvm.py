"""LIBSVM's text format, read in blocks: `LABEL INDEX:VALUE INDEX:VALUE …  # comment`.

Format: the README of LIBSVM (github.com/cjlin1/libsvm): indices count from 1 and increase, what
is not there is 0. Arrow reads a block at a time; a block that it or our checks refuse is read
again line by line, slowly, and that reading decides and knows the line.
"""

import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from lockstep.workloads.spec import DataError

BLOCK_BYTES = 4 << 20
"""Text read at a time; memory is a few times as much."""
LONGEST_LINE = 64 << 20
OPENERS: dict[str, Callable[[Path], BufferedIOBase]] = {
    ".bz2": bz2.BZ2File,
    ".gz": gzip.GzipFile,
    ".xz": lzma.LZMAFile,
}
"""By the end of the file's name."""

_WHITE = bytes.maketrans(b"\t\r\v\f", b"    ")
_PARSE = csv.ParseOptions(delimiter=":", quote_char=False, escape_char=False)
_CONVERT = csv.ConvertOptions(
    column_types={"index": pa.int32(), "value": pa.float64()}, null_values=[], check_utf8=False
)


class LibsvmError(DataError):
    """A LIBSVM file cannot be used; the message names the file and the line that is wrong."""


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Some rows of a file, sparse (CSR).

    Attributes:
        labels: (n,), -1, 0 or 1 as the file has them.
        starts: (n + 1,), where each row begins in `columns` and `values`.
        columns: From 0.
        values: float32, rounded from the float64 that the text is.
    """

    labels: NDArray[np.int8]
    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]

    def dense(self, features: int) -> NDArray[np.float32]:
        """(n, features)."""
        rows = len(self.labels)
        if self.values.size == rows * features:
            return self.values.reshape(rows, features)
        matrix = np.zeros((rows, features), dtype=np.float32)
        matrix[np.repeat(np.arange(rows), np.diff(self.starts)), self.columns] = self.values
        return matrix


def blocks(path: Path, features: int) -> Iterator[RowBlock]:
    """The rows of a file in order, a few megabytes of text at a time.

    Args:
        path: Plain text, or compressed if the name ends as OPENERS has it.
        features: The largest index there may be.

    Raises:
        LibsvmError: The file cannot be read, has no rows, has a line that is wrong, or has both
            labels 0 and -1.
    """
    line = 1
    rows = 0
    seen: set[int] = set()
    for text in _texts(path):
        lines = text.translate(_WHITE).split(b"\n")
        if b"#" in text:
            lines = [line.partition(b"#")[0] for line in lines]
        hexadecimal = b"x" in text or b"X" in text  # which Arrow would take
        try:
            block = (None if hexadecimal else _fast(lines, features)) or _slow(lines, features)
            _check_classes(block, lines, seen)
        except _AtError as error:
            raise LibsvmError(f"{path} line {line + error.row}: {error}") from None
        line += text.count(b"\n")
        rows += len(block.labels)
        if block.labels.size:
            yield block
    if not rows:
        raise LibsvmError(f"{path} has no rows; each line must be LABEL INDEX:VALUE …")


def _check_classes(block: RowBlock, lines: list[bytes], seen: set[int]) -> None:
    """Add the block's labels to those seen; 0 and -1 are never both."""
    classes = {int(label) for label in np.unique(block.labels)}
    if {0, -1} <= seen | classes:
        rows = (row for row, line in enumerate(lines) if line.strip())
        for row, label in zip(rows, block.labels.tolist(), strict=True):
            if {0, -1} <= seen | {label}:
                raise _AtError(row, "labels are 0 and -1; they must be -1 and +1, or 0 and 1")
            seen.add(label)
    seen |= classes


def _texts(path: Path) -> Iterator[bytes]:
    """The file in pieces of whole lines."""
    kept, line = b"", 1
    try:
        with _opened(path) as stream:
            while piece := stream.read(BLOCK_BYTES):
                end = piece.rfind(b"\n") + 1
                if end:
                    text = kept + piece[:end]
                    yield text
                    line += text.count(b"\n")
                    kept = piece[end:]
                else:
                    kept += piece
                if len(kept) > LONGEST_LINE:
                    raise LibsvmError(
                        f"{path} line {line} is longer than {LONGEST_LINE >> 20} MiB; this is no"
                        " LIBSVM text"
                    )
    except EOFError:
        raise LibsvmError(f"{path} is cut short: its compressed data have no end") from None
    except (OSError, zlib.error, lzma.LZMAError) as error:
        why = getattr(error, "strerror", None) or error
        raise LibsvmError(f"cannot read {path}: {why}") from None
    if kept:
        yield kept


def _opened(path: Path) -> BufferedIOBase:
    opener = OPENERS.get(path.suffix)
    return path.open("rb") if opener is None else opener(path)


def _fast(lines: list[bytes], features: int) -> RowBlock | None:
    """By Arrow; None where `_slow` has to decide."""
    labels: list[int] = []
    counts: list[int] = []
    rests: list[bytes] = []
    for line in lines:
        label, _, rest = line.lstrip(b" ").partition(b" ")
        if not label:
            continue
        known = LABELS.get(label)
        if known is None:
            return None
        labels.append(known)
        counts.append(rest.count(b":"))
        rests.append(rest)
    starts = np.zeros(len(labels) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    text = b"\n".join(rests).replace(b" ", b"\n")
    if not text.strip():
        none = np.empty(0)
        return RowBlock(
            np.array(labels, np.int8), starts, none.astype(np.int32), none.astype(np.float32)
        )
    read = csv.ReadOptions(
        column_names=["index", "value"], use_threads=False, block_size=len(text) + 1
    )
    try:
        table = csv.read_csv(pa.BufferReader(text), read, _PARSE, _CONVERT)
    except pa.ArrowInvalid:
        return None
    columns = table["index"].to_numpy() - np.int32(1)
    with np.errstate(over="ignore"):
        values = table["value"].to_numpy().astype(np.float32)
    if len(values) != starts[-1] or columns.min() < 0 or columns.max() >= features:
        return None
    rising = np.diff(columns) > 0
    rising[starts[1:-1][(starts[1:-1] > 0) & (starts[1:-1] < len(columns))] - 1] = True
    if not (rising.all() and np.isfinite(values).all()):
        return None
    return RowBlock(np.array(labels, np.int8), starts, columns, values)


class _AtError(Exception):
    """What is wrong with a line of a block, and its place there."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row = row


def _slow(lines: list[bytes], features: int) -> RowBlock:
    labels: list[int] = []
    starts = [0]
    columns: list[int] = []
    values: list[float] = []
    for row, line in enumerate(lines):
        words = line.split()
        if not words:
            continue
        try:
            label, indices, numbers = parse_line(words, features)
        except LineError as error:
            raise _AtError(row, str(error)) from None
        labels.append(label)
        columns += indices
        values += numbers
        starts.append(len(columns))
    return RowBlock(
        np.array(labels, np.int8), np.array(starts, np.int64),
        np.array(columns, np.int32), np.array(values, np.float64).astype(np.float32),
    )  # fmt: skip


_INDEX = re.compile(rb"\d{1,10}")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LARGEST = float(np.finfo(np.float32).max)

LABELS = {b"-1": -1, b"+1": 1, b"1": 1, b"0": 0}
"""As files have them; others are read as numbers."""


class LineError(ValueError):
    """A line is wrong; the message says what and what would be right, not which line."""


def parse_line(words: list[bytes], features: int) -> tuple[int, list[int], list[float]]:
    """Label (-1, 0 or 1), columns from 0, and values.

    Raises:
        LineError: The line is not `LABEL INDEX:VALUE INDEX:VALUE …`.
    """
    columns: list[int] = []
    values: list[float] = []
    for word in words[1:]:
        index, colon, value = word.partition(b":")
        if not colon:
            raise LineError(f"{_shown(word)} is not INDEX:VALUE")
        if not _INDEX.fullmatch(index):
            raise LineError(f"index {_shown(index)} is not a whole number from 1")
        column = int(index) - 1
        if column < 0:
            raise LineError("index 0 is too small; indices count from 1")
        if column >= features:
            raise LineError(f"index {column + 1} is too large; the model has {features} features")
        if columns and column == columns[-1]:
            raise LineError(f"index {column + 1} comes twice; each comes once")
        if columns and column < columns[-1]:
            raise LineError(f"index {column + 1} follows {columns[-1] + 1}; indices must increase")
        columns.append(column)
        values.append(_value(column + 1, value))
    return _label(words[0]), columns, values


def _label(word: bytes) -> int:
    known = LABELS.get(word)
    if known is not None:
        return known
    number = float(word) if _NUMBER.fullmatch(word) else None
    if number not in (-1.0, 0.0, 1.0):
        raise LineError(f"label {_shown(word)} is wrong; it must be -1 or +1, or 0 or 1")
    return int(number)


def _value(index: int, text: bytes) -> float:
    if not _NUMBER.fullmatch(text):
        raise LineError(f"value {_shown(text)} of index {index} is not a finite decimal number")
    value = float(text)
    if abs(value) > _LARGEST:
        raise LineError(
            f"value {_shown(text)} of index {index} is too large; float32 ends at {_LARGEST:.3g}"
        )
    return value


def _shown(word: bytes) -> str:
    """A word of the file, fit for a sentence."""
    text = word[:24].decode("ascii", "backslashreplace")
    return repr(text + ("…" if len(word) > len(text) else ""))
