"""Scraped series out of samples.parquet, also on common moments."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from lockstep.analyzer.read.archive.parts import whole
from lockstep.analyzer.read.archive.table import Table
from lockstep.analyzer.shapes.labels import parsed
from lockstep.analyzer.shapes.run import FloatGrid, Span
from lockstep.collector.contract.metrics import Metric

COLUMNS = ("time", "node", "gpu", "rank", "metric", "labels", "value")
NOBODY = -1
MAX_AGE = 2.5
"""A gauge is reported up to this many scrape intervals away; beyond, it is absent."""
MAX_RATE_GAP = 10.0
"""A counter's rate over a gap of more scrape intervals than this says nothing of its inside."""
UP = "up"
SOME_ROWS = 30_000
"""Enough for several scrapes of a few nodes."""


@dataclass(frozen=True)
class Series:
    """One series; gpu and rank are NOBODY where it is about none."""

    metric: str
    labels: str
    node: str
    gpu: int
    rank: int
    times: FloatGrid
    values: FloatGrid

    @cached_property
    def label(self) -> dict[str, str]:
        """Its labels by name."""
        return parsed(self.labels)

    @property
    def interval(self) -> float:
        """Seconds between two scrapes, the median; NaN with fewer than two."""
        return float(np.median(np.diff(self.times))) if len(self.times) > 1 else float("nan")

    def rate(self) -> "Series":
        """Of a counter: per second since the scrape before; NaN after resets and long gaps."""
        if len(self.times) < 2:
            return Series(self.metric, self.labels, self.node, self.gpu, self.rank,
                          self.times, np.full(len(self.times), np.nan))  # fmt: skip
        passed, grown = np.diff(self.times), np.diff(self.values)
        known = (passed > 0) & (grown >= 0) & (passed <= MAX_RATE_GAP * np.median(passed))
        rates = np.where(known, grown / np.where(passed > 0, passed, 1.0), np.nan)
        return Series(self.metric, self.labels, self.node, self.gpu, self.rank, self.times,
                      np.concatenate([[np.nan], rates]))  # fmt: skip

    def at(self, times: FloatGrid, interval: float) -> FloatGrid:
        """Its last value at each of these moments; NaN where that is too old."""
        if not len(self.times):
            return np.full(len(times), np.nan)
        # Nodes are scraped at moments of their own within an interval.
        place = np.searchsorted(self.times, times + interval / 2, side="right") - 1
        told = self.values[np.maximum(place, 0)]
        age = times - self.times[np.maximum(place, 0)]
        fresh: FloatGrid = np.where((place >= 0) & (age <= MAX_AGE * interval), told, np.nan)
        return fresh


class ScrapedSeries:
    """The series of an archive, out of samples.parquet."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._interval: float | None = None

    def interval(self) -> float:
        """Seconds between two scrapes of a node, of the first ones; 1 where there are too few."""
        if self._interval is None:
            rows = self._table.head(("time", "node"), SOME_ROWS)
            times = [np.unique(rows["time"].to_numpy()[hits(column, pa.array([node]))])
                     for column in rows["node"].chunks[:1] for node in column.dictionary.to_pylist()
                     ] if rows.num_rows else []  # fmt: skip
            passed = [np.median(np.diff(each)) for each in times if len(each) > 1]
            if not passed:
                return 1.0
            self._interval = max(float(np.median(passed)), 1e-3)
        return self._interval

    def begin(self) -> float:
        """Unix seconds of the first scrape; minus infinity where nobody knows."""
        edges = self._table.edges("time")
        return edges[0] if edges is not None else float("-inf")

    def nodes(self) -> list[str]:
        """Nodes of the first scrapes."""
        rows = self._table.head(("node",), SOME_ROWS)
        return [str(each) for each in rows["node"].unique().to_pylist() if each is not None]

    def first(self, metric: Metric) -> tuple[Series, ...]:
        """What the first scrapes reported of a metric: cheap, for what does not change."""
        rows = self._table.head(COLUMNS, SOME_ROWS)
        if not rows.num_rows:
            return ()
        mask = hits(rows["metric"].chunk(0), pa.array([metric.name]))
        return tuple(grouped(rows.filter(pa.array(mask))))

    def series(
        self, metrics: Iterable[Metric | str], span: Span | None = None, *, node: str = "",
        gpu: int | None = None, only: Callable[[pa.RecordBatch], NDArray[np.bool_]] | None = None,
    ) -> tuple[Series, ...]:  # fmt: skip
        """Series of some metrics.

        Args:
            metrics: Which.
            span: Their time; None = all.
            node, gpu: Whom they are about; empty or None = everybody.
            only: Which rows of a batch, of these metrics; None = all of them.

        Raises:
            ArchiveError: The files went away.
        """
        names = sorted({each if isinstance(each, str) else each.name for each in metrics})
        wanted = pa.array(names, pa.string())

        def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
            mask = hits(batch.column("metric"), wanted) if only is None else only(batch)
            if node:
                mask &= hits(batch.column("node"), pa.array([node]))
            return batch.filter(pa.array(mask)) if not mask.all() else batch

        where = None
        if span is not None:
            where = (ds.field("time") >= span.start) & (ds.field("time") <= span.end)
        if gpu is not None:
            about = ds.field("gpu") == gpu
            where = about if where is None else where & about
        return tuple(grouped(self._table.read(COLUMNS, where, keep)))


def moments(series: Sequence[Series]) -> tuple[FloatGrid, float]:
    """(T,) the scrapes of the node that was scraped most, and the seconds between two of them."""
    if not series:
        return np.zeros(0), float("nan")
    longest = max(series, key=lambda each: len(each.times))
    interval = longest.interval
    return np.unique(longest.times), interval if np.isfinite(interval) else 1.0


def panel(series: Sequence[Series], times: FloatGrid, interval: float) -> FloatGrid:
    """(T, series) the values at these moments."""
    if not series:
        return np.full((len(times), 0), np.nan)
    return np.stack([each.at(times, interval) for each in series], axis=1)


def hits(column: pa.DictionaryArray, wanted: pa.Array) -> NDArray[np.bool_]:
    """Rows of a dictionary column that hold one of the words."""
    among = pc.is_in(column.dictionary, value_set=wanted).to_numpy(zero_copy_only=False)
    rows: NDArray[np.bool_] = np.append(among, False)[codes(column)]
    return rows


def codes(column: pa.DictionaryArray) -> NDArray[np.int32]:
    """(rows,) place of each word in the dictionary, -1 = null."""
    indices = column.indices
    numbers: NDArray[np.int32] = (
        indices.fill_null(-1).to_numpy() if indices.null_count else indices.to_numpy()
    )
    return numbers


def grouped(table: pa.Table) -> Iterable[Series]:
    """The series that rows of COLUMNS make."""
    if not table.num_rows:
        return
    table = whole(table)
    codes, words = [], {}
    for name in ("metric", "labels", "node"):
        column = table[name].chunk(0)
        words[name] = ["" if each is None else each for each in column.dictionary.to_pylist()]
        codes.append(pc.fill_null(column.indices, -1).to_numpy().astype(np.int64))
        words[name].append("")
    gpu, rank = (
        pc.fill_null(table[name], NOBODY).to_numpy().astype(np.int64) for name in ("gpu", "rank")
    )
    time = table["time"].to_numpy()
    value = pc.fill_null(table["value"], np.nan).to_numpy()
    key = np.zeros(len(time), dtype=np.int64)
    for part in (*codes, gpu, rank):
        _, place = np.unique(part, return_inverse=True)
        # Renumbered each time: the product of five codes does not fit into 64 bits.
        _, key = np.unique(key * (int(place.max()) + 1) + place, return_inverse=True)
    order = np.lexsort((time, key))
    edges = np.flatnonzero(np.diff(key[order])) + 1
    for rows in np.split(order, edges):
        first = rows[0]
        metric, labels, node = (
            words[name][code[first]] for name, code in zip(words, codes, strict=True)
        )
        yield Series(metric, labels, node, int(gpu[first]), int(rank[first]), time[rows],
                     value[rows])  # fmt: skip
