"""Samples that programs add to a run: a line of JSON each, appended under a lock (flock(2)).

A sample is taken whole and for good, or refused; of a line that a crash cut off the rest is read.
"""

import fcntl
import json
import math
import os
import stat
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lockstep.bench.api.refusal import Refusal, absent
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import POSTED_FILE

MOST_BYTES = 64 << 20
"""Of the file of one run: some million samples."""
Floats = NDArray[np.float64]
Sample = tuple[str, str, int | None, float, float]
"""Metric, node (empty = not told), rank, unix seconds, value."""
Series = tuple[str, str, int | None, Floats, Floats]
"""Metric, node, rank, times, values."""


def append(folder: Path, samples: Sequence[Sample]) -> None:
    """Add samples to the run of an archive, all or none.

    Raises:
        Refusal: The run is gone, its file is full, or nothing can be written there.
    """
    text = "".join(f"{json.dumps(each, allow_nan=False)}\n" for each in samples).encode()
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        handle = os.open(folder / POSTED_FILE, flags, 0o644)
    except FileNotFoundError:
        raise absent("unknown_run", f"the run {folder.name} is gone") from None
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        told = os.fstat(handle)
        if not stat.S_ISREG(told.st_mode) or told.st_size + len(text) > MOST_BYTES:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "full",
                f"the run {folder.name} has {told.st_size:,} bytes of posted samples, and the most"
                f" is {MOST_BYTES:,}; nothing of this request was taken",
            )  # fmt: skip
        cut = told.st_size and os.pread(handle, 1, told.st_size - 1) != b"\n"
        _write(handle, b"\n" * bool(cut) + text, told.st_size)
    except OSError as error:
        raise _unwritable(folder, error) from None
    finally:
        os.close(handle)


def read(folder: Path) -> Iterator[Series]:
    """The series, each in the order of time; what is no sample of ours is left out."""
    found: dict[tuple[str, str, int | None], list[tuple[float, float]]] = {}
    for metric, node, rank, time, value in _samples(folder / POSTED_FILE):
        found.setdefault((metric, node, rank), []).append((time, value))
    for (metric, node, rank), points in found.items():
        points.sort(key=lambda point: point[0])  # equal moments stay as they came
        times, values = np.array(points, dtype=np.float64).T
        yield metric, node, rank, times, values


def _samples(path: Path) -> Iterator[Sample]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return
        for line in file.read(MOST_BYTES).splitlines():
            if (sample := _sample(line)) is not None:
                yield sample


def _sample(line: bytes) -> Sample | None:
    try:
        metric, node, rank, time, value = bounded_json.loads(line)
        numbers = float(time), float(value)
    except (ValueError, TypeError, OverflowError):
        return None
    right = (
        isinstance(metric, str) and isinstance(node, str) and (rank is None or type(rank) is int)
    )
    return (metric, node, rank, *numbers) if right and all(map(math.isfinite, numbers)) else None


def _write(handle: int, text: bytes, before: int) -> None:
    """All of it: of a disk that is full in the middle nothing is left."""
    left = memoryview(text)
    try:
        while left:
            left = left[os.write(handle, left) :]
    except OSError:
        os.ftruncate(handle, before)
        raise


def _unwritable(folder: Path, error: OSError) -> Refusal:
    return Refusal(
        HTTPStatus.CONFLICT, "unwritable",
        f"nothing can be added to the run {folder.name}: {error.strerror}",
    )  # fmt: skip
