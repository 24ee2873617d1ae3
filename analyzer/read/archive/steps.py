"""The steps of a run as arrays (step × rank), for given columns and a window of time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from lockstep.analyzer.read.archive.files import LATEST
from lockstep.analyzer.read.archive.table import Table
from lockstep.analyzer.shapes.run import FloatGrid, Span
from lockstep.collector.contract.words import STEP_TAGS

ALWAYS = ("step", "rank", "attempt", "start", "wall_seconds")
MOST_STEPS = 1 << 44
MOST_ATTEMPTS = 1 << 18
"""Both together stand in one number of 64 bits."""
MOST_CELLS = 60_000_000
"""Steps times ranks: two months of 8 ranks at 1 s, or a day of 690."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of all ranks; a step that was done again after a restart has a row an attempt.

    Attributes:
        steps: (W,) optimizer step.
        attempts: (W,) restart count.
        start: (W,) unix seconds at which the first rank began it, rising within an attempt.
        wall: (W,) seconds it took, median over ranks.
        ranks: (R,) global ranks.
        cells: Column of contract.archive.STEPS -> (W, R), NaN = that rank reported nothing.
        tags: Word of STEP_TAGS -> (W,) whether any rank tagged it so.
    """

    steps: NDArray[np.int64]
    attempts: NDArray[np.int64]
    start: FloatGrid
    wall: FloatGrid
    ranks: NDArray[np.int64]
    cells: Mapping[str, FloatGrid]
    tags: Mapping[str, NDArray[np.bool_]]

    @property
    def slow_by_design(self) -> NDArray[np.bool_]:
        """(W,) steps that nobody is blamed for."""
        mask: NDArray[np.bool_] = np.any(np.stack(list(self.tags.values())), axis=0)
        return mask


def read(table: Table, columns: Sequence[str], span: Span | None) -> Steps:
    """The steps that began in a span.

    Args:
        table: steps.parquet.
        columns: More than ALWAYS; `tags` gives the tags.
        span: None = all.

    Raises:
        ArchiveError: The files went away.
    """
    wanted = list(dict.fromkeys((*ALWAYS, *columns)))
    where = ds.field("start").is_valid()
    if span is not None:
        where = (ds.field("start") >= span.start) & (ds.field("start") < span.end)
    rows = table.read(wanted, where if span is not None else None)
    return arranged(rows, [name for name in wanted if name not in ("step", "rank", "attempt")])


def arranged(rows: pa.Table, columns: Sequence[str]) -> Steps:
    """Rows of steps.parquet as arrays; rows that no run can have are left out."""
    rows = possible(rows)
    step, rank, attempt = (_numbers(rows, name, np.int64) for name in ("step", "rank", "attempt"))
    numbers, at = _numbered(attempt, step)
    ranks, column = _placed(rank)
    shape = (len(numbers[0]), len(ranks))
    if shape[0] * shape[1] > MOST_CELLS:
        keep = np.arange(shape[0])[-(MOST_CELLS // shape[1]) :]
        return _newest(rows, columns, at >= keep[0])
    cell = at * shape[1] + column
    # As the recorder writes one process: every rank of every step, in their order.
    whole = len(cell) == shape[0] * shape[1] and bool((np.diff(cell) == 1).all())
    cells = {}
    for name in columns:
        if name == "tags":
            continue
        flat = _numbers(rows, name, np.float64)
        if not whole:
            told, flat = flat, np.full(shape[0] * shape[1], np.nan)
            flat[cell] = told
        cells[name] = flat.reshape(shape)
    order = _order(numbers, cells["start"])
    begun = _least(cells["start"])[order]
    return Steps(
        steps=numbers[1][order], attempts=numbers[0][order], start=begun,
        wall=middle(cells["wall_seconds"])[order], ranks=ranks,
        cells={name: values[order] for name, values in cells.items()} if _moved(order) else cells,
        tags={tag: told[order] for tag, told in _tags(rows, columns, at, shape[0]).items()},
    )  # fmt: skip


def possible(rows: pa.Table) -> pa.Table:
    """Without the rows that no run can have."""
    step, rank, attempt = (_numbers(rows, name, np.int64) for name in ("step", "rank", "attempt"))
    start = _numbers(rows, "start", np.float64)
    wall = _numbers(rows, "wall_seconds", np.float64)
    right = (step >= 0) & (step < MOST_STEPS) & (rank >= 0) & (wall >= 0)
    right &= (attempt >= 0) & (attempt < MOST_ATTEMPTS) & (start > 0) & (start < LATEST)
    return rows if right.all() else rows.filter(pa.array(right))


def quantiles(values: FloatGrid, wanted: Sequence[float]) -> list[FloatGrid]:
    """Quantiles over the last axis, linearly between values, of those that are reported.

    As numpy.nanquantile, which takes seconds for a day of steps.
    """
    if values.shape[-1] == 0:
        return [np.full(values.shape[:-1], np.nan) for _ in wanted]
    ordered = np.sort(values, axis=-1)  # NaN last
    count = np.isfinite(values).sum(axis=-1)
    found = []
    for share in wanted:
        place = share * np.maximum(count - 1, 0)
        low = place.astype(np.int64)
        high = np.minimum(low + 1, np.maximum(count - 1, 0))
        below = np.take_along_axis(ordered, low[..., None], axis=-1)[..., 0]
        above = np.take_along_axis(ordered, high[..., None], axis=-1)[..., 0]
        found.append(np.where(count > 0, below + (above - below) * (place - low), np.nan))
    return found


def middle(values: FloatGrid) -> FloatGrid:
    """Medians over the last axis; NaN where nobody reported."""
    return quantiles(values, (0.5,))[0]


def _newest(rows: pa.Table, columns: Sequence[str], mask: NDArray[np.bool_]) -> Steps:
    return arranged(rows.filter(pa.array(mask)), columns)


def _numbers(rows: pa.Table, name: str, kind: type) -> NDArray:  # type: ignore[type-arg]
    column = rows[name]
    if column.null_count:
        column = pc.fill_null(column, np.nan if pa.types.is_floating(column.type) else -1)
    numbers: NDArray = column.to_numpy().astype(kind, copy=False)  # type: ignore[type-arg]
    return numbers


def _numbered(
    attempt: NDArray[np.int64], step: NDArray[np.int64]
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]:
    """The (attempt, step) that there are, and which of them each row is."""
    if not len(step):
        return (attempt, step), step
    least, most = int(step.min()), int(step.max())
    length = most - least + 1
    attempts, which = np.unique(attempt, return_inverse=True) if attempt.any() else (
        np.zeros(1, np.int64), 0)  # fmt: skip
    if length * len(attempts) <= 4 * len(step) + 1024:
        key = which * length + (step - least)
        there = np.zeros(length * len(attempts), dtype=bool)
        there[key] = True
        found = np.flatnonzero(there)
        at = (np.cumsum(there) - 1)[key]
        return (attempts[found // length], found % length + least), at
    pairs = np.stack([attempt, step], axis=1)
    unique, at = np.unique(pairs, axis=0, return_inverse=True)
    return (unique[:, 0], unique[:, 1]), at.reshape(-1)


def _placed(rank: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if not len(rank):
        return rank, rank
    most = int(rank.max())
    if most > 4 * len(rank) + 1024:
        found, at = np.unique(rank, return_inverse=True)
        return found, at.reshape(-1)
    there = np.zeros(most + 1, dtype=bool)
    there[rank] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[rank]


def _order(
    numbers: tuple[NDArray[np.int64], NDArray[np.int64]], start: FloatGrid
) -> NDArray[np.int64]:
    """By the time at which they began: axes of time rise, whatever a clock did."""
    return np.argsort(_least(start), kind="stable")


def _moved(order: NDArray[np.int64]) -> bool:
    return bool((np.diff(order) < 0).any())


def _least(values: FloatGrid) -> FloatGrid:
    least: FloatGrid = np.fmin.reduce(values, axis=1) if values.shape[1] else values.sum(axis=1)
    return least


def _tags(
    rows: pa.Table, columns: Sequence[str], at: NDArray[np.int64], count: int
) -> dict[str, NDArray[np.bool_]]:
    told = {tag: np.zeros(count, dtype=bool) for tag in STEP_TAGS}
    if "tags" not in columns or not count:
        return told
    texts = rows["tags"].unify_dictionaries().combine_chunks()
    texts = texts.chunk(0) if isinstance(texts, pa.ChunkedArray) else texts
    codes = pc.fill_null(texts.indices, -1).to_numpy()
    for code, text in enumerate(texts.dictionary.to_pylist()):
        for tag in (text or "").split(","):
            if tag in told:
                told[tag][at[codes == code]] = True
    return told
