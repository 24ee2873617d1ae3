"""The steps of an archive, each part of it read once, and their summary, which grows with them."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from lockstep.analyzer.read.archive import steps
from lockstep.analyzer.read.archive.growing import Growing
from lockstep.analyzer.read.archive.parts import whole
from lockstep.analyzer.read.archive.steps import MOST_STEPS, Steps, quantiles
from lockstep.analyzer.read.archive.table import Table
from lockstep.collector.contract import archive
from lockstep.collector.contract.words import PHASES, STEP_TAGS
from lockstep.dashboard.shapes import Floats, Span

# A run's steps, one value a step: all that charts over time need, and a rank's share of it.

PHASE_COLUMNS = tuple(f"{phase}_seconds" for phase in PHASES)
COLUMNS = ("loss", "samples", "tokens", "flops", *PHASE_COLUMNS, "tags")
"""Of contract.archive.STEPS, beside steps.ALWAYS."""
QUANTILES = {"p5": 0.05, "median": 0.5, "p95": 0.95}


@dataclass(frozen=True, slots=True)
class Summary:
    """Steps of all ranks together; a step that was done again has a place an attempt.

    Attributes:
        steps: (W,) optimizer step.
        attempts: (W,) restart count.
        start: (W,) unix seconds at which the first rank began it, rising.
        wall: (W,) seconds it took, median over ranks.
        lines: Name -> (W,) over ranks, NaN = nobody told: those of QUANTILES and `slowest` of the
            wall time, `samples` and `tokens` summed, `loss`, `flops` and each phase as means.
        tags: Word of STEP_TAGS -> (W,) whether any rank tagged it so.
    """

    steps: NDArray[np.int64]
    attempts: NDArray[np.int64]
    start: Floats
    wall: Floats
    lines: Mapping[str, Floats]
    tags: Mapping[str, NDArray[np.bool_]]

    @property
    def keys(self) -> NDArray[np.int64]:
        """(W,) attempt and step as one number."""
        return key(self.attempts, self.steps)

    def only(self, kept: "NDArray[np.bool_] | NDArray[np.int64] | slice") -> "Summary":
        """Some of the steps, or all of them in another order."""
        return Summary(
            self.steps[kept], self.attempts[kept], self.start[kept], self.wall[kept],
            {name: line[kept] for name, line in self.lines.items()},
            {tag: told[kept] for tag, told in self.tags.items()},
        )  # fmt: skip

    def during(self, span: Span | None) -> "Summary":
        """The steps that began in a span; None = all."""
        if span is None:
            return self
        first, last = np.searchsorted(self.start, [span.start, span.end])
        return self.only(slice(int(first), int(last)))


def key(attempts: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Attempt and step as one number that rises with a run."""
    return attempts * MOST_STEPS + steps


def summed(steps: Steps) -> Summary:
    """Of steps with COLUMNS."""
    cells = steps.cells
    wall = cells["wall_seconds"]
    lines = dict(zip(QUANTILES, quantiles(wall, list(QUANTILES.values())), strict=True))
    lines["slowest"] = np.fmax.reduce(wall, axis=1) if wall.shape[1] else steps.wall
    for name in ("samples", "tokens"):
        lines[name] = mean(cells[name]) * np.isfinite(cells[name]).sum(axis=1)
    for name in ("loss", "flops", *PHASE_COLUMNS):
        lines[name] = mean(cells[name])
    return Summary(steps.steps, steps.attempts, steps.start, steps.wall, lines, steps.tags)


def nothing() -> Summary:
    """Of no step."""
    none, numbers = np.zeros(0), np.zeros(0, dtype=np.int64)
    names = (*QUANTILES, "slowest", "samples", "tokens", "loss", "flops", *PHASE_COLUMNS)
    return Summary(numbers, numbers, none, none, dict.fromkeys(names, none),
                   {tag: np.zeros(0, dtype=bool) for tag in STEP_TAGS})  # fmt: skip


def joined(summary: Summary, other: Summary) -> Summary:
    """Both, in the order of time."""
    both = Summary(
        np.concatenate([summary.steps, other.steps]),
        np.concatenate([summary.attempts, other.attempts]),
        np.concatenate([summary.start, other.start]), np.concatenate([summary.wall, other.wall]),
        {name: np.concatenate([line, other.lines[name]]) for name, line in summary.lines.items()},
        {tag: np.concatenate([tagged, other.tags[tag]]) for tag, tagged in summary.tags.items()},
    )  # fmt: skip
    rising = not len(both.start) or bool((np.diff(both.start) >= 0).all())
    return both if rising else both.only(np.argsort(both.start, kind="stable"))


def mean(values: Floats) -> Floats:
    """(W,) over ranks that told; NaN where nobody did."""
    known = np.isfinite(values)
    if known.all():
        quantile: Floats = values.mean(axis=1) if values.shape[1] else np.full(len(values), np.nan)
        return quantile
    count = known.sum(axis=1)
    whole = np.where(known, values, 0.0).sum(axis=1)
    return np.where(count > 0, whole / np.maximum(count, 1), np.nan)


KEPT_BYTES = 64 << 20
"""Of rows: a day of 8 ranks and steps of 1 s. The oldest go first; their summary stays."""
MOST_CHUNKS = 64
OTHERS = ("own_seconds",)
"""What else tables of ranks need."""
EXACT = ("start",)
"""The others are kept with seven digits."""


class StepLog:
    """Steps of one archive.

    Args:
        table: steps.parquet.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._columns = tuple(dict.fromkeys((*steps.ALWAYS, *COLUMNS, *OTHERS)))
        self._growing = Growing(table, self._columns)
        self._lock = threading.Lock()
        self._forget()

    def summary(self, cut: Span | None) -> Summary:
        """Of the steps that began in a span; None = all.

        Raises:
            TroubleError: The files went away.
        """
        if cut is not None and not self._table.grows and not len(self._summary.start):
            return summed(steps.read(self._table, COLUMNS, cut))  # it says where rows of it lie
        with self._lock:
            self._grow()
            return self._summary.during(cut)

    def steps(self, columns: Sequence[str], cut: Span | None) -> steps.Steps:
        """As steps.read, out of memory where the rows of the span are there.

        Raises:
            TroubleError: The files went away.
        """
        if not self._table.grows or not set(columns) <= set(self._columns):
            return steps.read(self._table, columns, cut)
        with self._lock:
            self._grow()
            known = self._gone is None or (cut is not None and cut.start > self._gone[1])
            rows = [rows for _, rows in self._rows]
        if not known or not rows:
            return steps.read(self._table, columns, cut)
        wanted = list(dict.fromkeys((*steps.ALWAYS, *columns)))
        rows_read = pa.concat_tables(rows).select(wanted)
        if cut is not None:
            rows_read = rows_read.filter(
                (ds.field("start") >= cut.start) & (ds.field("start") < cut.end)
            )
        return steps.arranged(rows_read, ("start", "wall_seconds", *columns))

    def _forget(self) -> None:
        self._rows: list[tuple[int, pa.Table]] = []
        self._gone: tuple[int, float] | None = None
        self._summary = nothing()

    def _grow(self) -> None:
        over, news = self._growing.look()
        if over:
            self._forget()
        late = False
        for rows in news:
            late = late or not self._add(rows)
        if late:
            self._forget()
            # Not in the order of time: all at once, which takes more memory.
            self._summary = summed(steps.read(self._table, COLUMNS, None))
            self._gone = (np.iinfo(np.int64).max, np.inf)
        if not self._table.grows and self._rows:
            self._drop(len(self._rows))  # nothing will come to them

    def _add(self, rows: pa.Table) -> bool:
        """False = rows of the same steps are gone from memory."""
        rows = steps.possible(rows)
        if not rows.num_rows:
            return True
        keys = _keys(rows)
        least, most = int(keys.min()), int(keys.max())
        if self._gone is not None and self._gone[0] >= least:
            return False
        again = [each.filter(pa.array(_keys(each) >= least))
                 for last, each in self._rows if last >= least]  # fmt: skip
        rows = rows.cast(_compact(rows.schema))
        arranged = steps.arranged(
            pa.concat_tables([*again, rows]), ("start", "wall_seconds", *COLUMNS)
        )
        before = self._summary
        self._summary = joined(before.only(before.keys < least), summed(arranged))
        self._rows.append((most, rows))
        if len(self._rows) > MOST_CHUNKS:
            self._rows = _fewer(self._rows)
        # Nothing will come to a file: its rows are kept for the next of its batches only.
        most = KEPT_BYTES if self._table.grows else KEPT_BYTES // 8
        while sum(each.nbytes for _, each in self._rows) > most:
            self._drop(1)
        return True

    def _drop(self, count: int) -> None:
        """The oldest rows."""
        for last, rows in self._rows[:count]:
            start = float(rows["start"].to_numpy().max())
            gone = self._gone or (last, start)
            self._gone = (max(gone[0], last), max(gone[1], start))
        del self._rows[:count]


def _keys(rows: pa.Table) -> NDArray[np.int64]:
    return key(rows["attempt"].to_numpy().astype(np.int64), rows["step"].to_numpy())


def _fewer(chunks: Sequence[tuple[int, pa.Table]]) -> list[tuple[int, pa.Table]]:
    """Neighbours together as long as they are small."""
    kept_parts: list[tuple[int, list[pa.Table]]] = []
    for last, rows in chunks:
        size = rows.nbytes + sum(part.nbytes for part in kept_parts[-1][1]) if kept_parts else 0
        if kept_parts and size < KEPT_BYTES // 16:
            kept_parts[-1] = (max(kept_parts[-1][0], last), [*kept_parts[-1][1], rows])
        else:
            kept_parts.append((last, [rows]))
    return [(last, whole(pa.concat_tables(some))) for last, some in kept_parts]


def _compact(schema: pa.Schema) -> pa.Schema:
    exact = {column.name: column.dtype for column in archive.STEPS if column.name in EXACT}
    return pa.schema([
        field.with_type(pa.float32())
        if pa.types.is_floating(field.type) and field.name not in exact else field
        for field in schema
    ])  # fmt: skip
