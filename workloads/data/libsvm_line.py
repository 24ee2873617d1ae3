"""One line of LIBSVM text, read strictly: what is wrong with it, in a sentence."""

import re

import numpy as np

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
