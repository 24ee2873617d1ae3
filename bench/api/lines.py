"""The series of a run: what scrapes saw, what steps told, and what was posted."""

import fcntl
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lockstep.analyzer.read.archive.load import Archive
from lockstep.analyzer.read.archive.series import COLUMNS, grouped
from lockstep.bench.api.shapes import Refusal, absent
from lockstep.collector.contract import archive as contract
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import POSTED_FILE

# Samples that programs post to a run: a line of JSON each, appended under a lock (flock(2)). A
# sample is stored whole, or refused; of a line that a crash cut off the rest is read.

Floats = NDArray[np.float64]
MOST_BYTES = 64 << 20
"""Of the file of one run: some million samples."""
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


MOST_ROWS = 4_000_000
"""Of samples.parquet that are read for one answer: 10 minutes of 64 ranks, or a day of a series."""
MOST_POINTS = 200_000
"""Of one answer."""
STEP_METRICS = tuple(
    column.name
    for column in contract.STEPS
    if column.name not in ("step", "rank", "attempt", "start", "tags")
)
"""Columns of steps.parquet that are numbers: each is a series a rank."""

IDENTITY = ("metric", "node", "gpu", "rank", "labels")
"""By which series are told apart."""


@dataclass(frozen=True, slots=True)
class Line:
    """One series.

    Attributes:
        metric: A name of docs/reference/metrics.md, a column of steps.parquet, or a posted one.
        node, gpu, rank: Whom it is about; empty or None = not told.
        labels: Others, as in samples.parquet.
        times: (T,) unix seconds, rising.
        values: (T,).
        steps: (T,) optimizer steps; None = not told.
    """

    metric: str
    node: str
    gpu: int | None
    rank: int | None
    labels: str
    times: Floats
    values: Floats
    steps: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """Which series, and how much of them.

    Attributes:
        metrics: Names; empty = all.
        since, until: Unix seconds, both included.
        last_n: The newest so many samples of each series.
        summarize: So many windows of each series.
    """

    metrics: tuple[str, ...] = ()
    rank: int | None = None
    node: str | None = None
    since: float = -math.inf
    until: float = math.inf
    last_n: int | None = None
    summarize: int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """Samples of one series that follow each other.

    Attributes:
        begin, end: Unix seconds of its first and last sample.
        mean, least, most: Of those that are numbers; NaN = of none.
        last: Its last sample.
        count: How many samples are in it.
    """

    begin: float
    end: float
    mean: float
    least: float
    most: float
    last: float
    count: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A series in windows."""

    line: Line
    windows: tuple[Window, ...] = field(default=())


def lines(folder: Path, wish: Wish) -> tuple[Line, ...]:
    """The series that are wished for, in the order of their names.

    Args:
        folder: Of an archive.

    Raises:
        Refusal: They are too many for one answer.
    """
    found = [_cut(each, wish) for each in _read(folder, wish)]
    kept = sorted((each for each in found if len(each.times)), key=identity)
    if wish.summarize is None and (count := sum(len(each.times) for each in kept)) > MOST_POINTS:
        raise too_many(f"the answer would have {count:,} points, and the most is {MOST_POINTS:,}")
    return tuple(kept)


def windows(line: Line, count: int) -> Summary:
    """A series in `count` windows of as many samples as can be; none has no samples.

    Every sample is in exactly one window, and the last sample in the last.
    """
    parts = np.array_split(np.arange(len(line.times)), min(count, len(line.times)))
    return Summary(line, tuple(_window(line, part) for part in parts if len(part)))


def names(folder: Path) -> list[dict[str, Any]]:
    """Every series, with how many samples it has and from when until when.

    Of scrapes a part at a time is counted, so that a run of a day can be asked, too.
    """
    stored = Archive(folder)
    counted: dict[tuple[Any, ...], tuple[int, float, float]] = {}
    for rows in stored.samples.batches((*IDENTITY, "time")):
        plain = rows.combine_chunks().group_by(list(IDENTITY))
        for row in plain.aggregate(
            [("time", each) for each in ("count", "min", "max")]
        ).to_pylist():
            key = tuple(row[name] for name in IDENTITY)
            count, first, last = counted.get(key, (0, math.inf, -math.inf))
            counted[key] = (
                count + row["time_count"], min(first, row["time_min"]), max(last, row["time_max"])
            )  # fmt: skip
    told = [
        {**dict(zip(IDENTITY, key, strict=True)), "samples": count, "first": first, "last": last}
        for key, (count, first, last) in counted.items() if count
    ]  # fmt: skip
    for each in (*_of_steps(stored, frozenset()), *_posted(folder, frozenset())):
        times = (float(each.times[0]), float(each.times[-1]))
        told.append(
            {**about(each), "samples": len(each.times), "first": times[0], "last": times[1]}
        )
    return sorted(told, key=_order)


def _order(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        "" if row[name] is None else f"{row[name]:09}" if isinstance(row[name], int) else row[name]
        for name in IDENTITY
    )


def identity(line: Line) -> tuple[str, str, int, int, str]:
    """By which series are told apart and put in order."""
    gpu, rank = (-1 if each is None else each for each in (line.gpu, line.rank))
    return line.metric, line.node, gpu, rank, line.labels


def about(line: Line) -> dict[str, Any]:
    """Whom a series is about, as JSON."""
    return {
        "metric": line.metric, "node": line.node or None, "gpu": line.gpu, "rank": line.rank,
        "labels": line.labels,
    }  # fmt: skip


def too_many(what: str) -> Refusal:
    """More than one answer can have."""
    return Refusal(
        HTTPStatus.UNPROCESSABLE_ENTITY, "too_many_points",
        f"{what}; name metrics, a rank or a node, or ask with since, last_n or summarize", "metric",
    )  # fmt: skip


def _read(folder: Path, wish: Wish) -> Iterator[Line]:
    stored = Archive(folder)
    wanted = frozenset(wish.metrics)
    yield from _scraped(stored, wanted)
    yield from _of_steps(stored, wanted)
    yield from _posted(folder, wanted)


def _posted(folder: Path, wanted: frozenset[str]) -> Iterator[Line]:
    for metric, node, rank, times, values in read(folder):
        if not wanted or metric in wanted:
            yield Line(metric, node, None, rank, "", times, values)


def _scraped(stored: Archive, wanted: frozenset[str]) -> Iterator[Line]:
    """Of samples.parquet; parts are counted before they are read where all are wanted."""
    others = wanted - set(STEP_METRICS)
    if wanted and not others:
        return
    if wanted:
        found = stored.series.series(sorted(others))
    else:
        rows = sum(_rows(path) for path in stored.samples.parts())
        if rows > MOST_ROWS:
            raise too_many(f"this run has {rows:,} samples")
        found = tuple(grouped(stored.samples.read(COLUMNS)))
    for each in found:
        yield Line(
            each.metric, each.node, _known(each.gpu), _known(each.rank), each.labels, each.times,
            each.values,
        )  # fmt: skip


def _of_steps(stored: Archive, wanted: frozenset[str]) -> Iterator[Line]:
    chosen = [each for each in STEP_METRICS if not wanted or each in wanted]
    if not chosen or not stored.steps.parts():
        return
    table = stored.steps.read(("step", "rank", "start", *chosen))
    step, rank, start = (table[name].to_numpy() for name in ("step", "rank", "start"))
    order = np.lexsort((start, rank))
    step, rank, start = step[order], rank[order], start[order]
    edges = np.flatnonzero(np.diff(rank)) + 1
    for name in chosen:
        values = table[name].to_numpy().astype(np.float64)[order]
        parts = zip(*(np.split(each, edges) for each in (rank, step, start, values)), strict=True)
        for ranks, steps, times, told in parts:
            if len(ranks) and not np.isnan(told).all():
                yield Line(name, "", None, int(ranks[0]), "", times, told, steps.astype(np.int64))


def _cut(line: Line, wish: Wish) -> Line:
    """What is wished of a series; none of it where it is about somebody else."""
    keep = (line.times >= wish.since) & (line.times <= wish.until)
    if (wish.rank is not None and line.rank != wish.rank) or (
        wish.node is not None and line.node != wish.node
    ):
        keep[:] = False
    at = np.flatnonzero(keep)
    at = at if wish.last_n is None else at[-wish.last_n :]
    steps = None if line.steps is None else line.steps[at]
    return replace(line, times=line.times[at], values=line.values[at], steps=steps)


def _window(line: Line, at: NDArray[np.int64]) -> Window:
    values = line.values[at]
    told = values[np.isfinite(values)]
    least, mean, most = (
        (float(told.min()), float(told.mean()), float(told.max())) if len(told) else (math.nan,) * 3
    )
    return Window(
        float(line.times[at[0]]), float(line.times[at[-1]]), mean, least, most, float(values[-1]),
        len(at),
    )  # fmt: skip


def _rows(path: Path) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, ValueError):  # torn: whoever reads it says so
        return 0


def _known(index: int) -> int | None:
    return index if index >= 0 else None


def sized(lines: Sequence[Line], summarize: int | None) -> Sequence[Summary] | None:
    """The series in windows, where that is asked for.

    Raises:
        Refusal: The windows are too many for one answer.
    """
    if summarize is None:
        return None
    made = [windows(each, summarize) for each in lines]
    if (count := sum(len(each.windows) for each in made)) > MOST_POINTS:
        raise too_many(f"the answer would have {count:,} windows, and the most is {MOST_POINTS:,}")
    return made
