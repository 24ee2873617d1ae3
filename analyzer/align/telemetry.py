"""Scraped samples on the axes of a Grid: the ranks of a sample, gauges, rates, last values.

One scrape of a node gives all its samples the same time, so times are looked up once a node. Which
sample is about which scrape and rank is kept, and assigned to windows when a series is asked for: a
grid of each would be most of the memory, and few are asked for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.align.sample_columns import Integers, SampleColumns, numbered
from lockstep.analyzer.read.archive.series import MAX_AGE, MAX_RATE_GAP
from lockstep.analyzer.shapes.labels import series_parts
from lockstep.analyzer.shapes.run import FloatGrid, RankInfo
from lockstep.collector.contract.metrics import METRICS, RANK_UP, TRAIN_HEARTBEAT_AGE, Kind

Value = TypeVar("Value")


class OnDemand(Mapping[str, Value]):
    """A mapping whose values are made when they are asked for, and not kept.

    Args:
        make: Key -> what makes its value, the same each time.
    """

    def __init__(self, make: Mapping[str, Callable[[], Value]]) -> None:
        self._make = make

    def __getitem__(self, key: str) -> Value:
        """The value, made anew."""
        return self._make[key]()

    def __contains__(self, key: object) -> bool:
        """Whether it is a key, without making its value."""
        return key in self._make

    def __iter__(self) -> Iterator[str]:
        """The keys."""
        return iter(self._make)

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._make)


FRESH = 2.0
"""Seconds that a heartbeat (every second) may be old by the time that its page is scraped."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The telemetry fields of Grid, as lockstep.analyzer.shapes.run documents them."""

    signals: Mapping[str, FloatGrid]
    last: Mapping[str, FloatGrid]
    last_time: Mapping[str, FloatGrid]
    scraped_until: FloatGrid
    down_since: FloatGrid
    scrape_seconds: float


@dataclass(frozen=True, slots=True)
class NodeScrapes:
    """What was scraped of one node, and which of it a window sees.

    Attributes:
        columns: (C,) of the Grid, the ranks on the node.
        times: (T,) unix seconds of its scrapes, rising.
        interval: Median seconds between them.
        series: Number of a series -> its place in `cells`.
        cells: (S, T + 1, C) rows of the samples; -1 = not reported, as all of the last, which is no
            scrape.
        nearer, farther: (W,) the two scrapes around a window; T where it is too far.
        pair: (W,) the scrape that begins the pair around a window; T - 1 where it is too far.
    """

    columns: Integers
    times: FloatGrid
    interval: float
    series: Mapping[int, int]
    cells: NDArray[np.int32]
    nearer: Integers
    farther: Integers
    pair: Integers


def telemetry(
    samples: pd.DataFrame,
    ranks: tuple[RankInfo, ...],
    middle: FloatGrid,
    own: tuple[FloatGrid, FloatGrid] | None = None,
) -> Telemetry:
    """Samples of nodes, GPUs and ranks, assigned to each rank they are about.

    Args:
        samples: contract.archive.SAMPLES.
        middle: (W,) unix seconds of the middle of each window.
        own: (W, R) when each rank began and ended it, where that is known: a rank that stands
            still does so in another window than those who wait for it in the next one.
    """
    table = SampleColumns(samples)
    scraped_until = np.full(len(ranks), np.nan)
    nodes = []
    for node, rows in table.nodes():
        columns = np.array([i for i, info in enumerate(ranks) if info.node == node], dtype=int)
        if columns.size == 0:
            continue
        down = table.is_up(rows) & ~(table.value[rows] > 0)
        scraped = table.time[rows[~down]]
        scraped_until[columns] = scraped.max() if len(scraped) else np.nan
        seen = _of_node(table, rows, columns, [ranks[column] for column in columns], middle)
        if seen is not None:
            nodes.append(seen)
    names = {_name(table, code): code for code in {code for node in nodes for code in node.series}}
    last, last_time = _last(nodes, table.value, names, len(ranks))
    shape = len(middle), len(ranks)
    told = {
        name: partial(_signal, nodes, table.value, names[name], shape, counts=_is_counter(metric))
        for name in sorted(names)
        if (metric := series_parts(name)[0]) != "up" and not metric.endswith("_info")
    }  # fmt: skip
    beats = TRAIN_HEARTBEAT_AGE.series()
    if own is not None and beats in told:
        told[beats] = partial(_oldest, nodes, table.value, names[beats], own, told[beats])
    signals = OnDemand(told)
    intervals = [node.interval for node in nodes if len(node.times) > 1]
    scrape = float(np.median(intervals)) if intervals else float("nan")
    return Telemetry(signals, last, last_time, scraped_until, _down_since(table, ranks), scrape)


def _of_node(
    table: SampleColumns,
    rows: NDArray[np.int32],
    columns: Integers,
    ranks: Sequence[RankInfo],
    middle: FloatGrid,
) -> NodeScrapes | None:
    """A node's samples; None where none is about a rank."""
    rows = rows[(table.metric[rows] >= 0) & np.isfinite(table.time[rows])]
    told, about = _rows_of_ranks(table.numbers("rank", rows), table.numbers("gpu", rows), ranks)
    if not len(told):
        return None
    rows = rows[told]
    place, times = numbered(table.time[rows])
    series = table.metric[rows].astype(np.int64) * len(table.labels) + table.label(rows)
    which, codes = pd.factorize(series)
    cells = np.full((len(codes), len(times) + 1, len(columns)), -1, dtype=np.int32)
    cells[which, place, about] = rows
    interval = _interval(times)
    return NodeScrapes(
        columns, times, interval,
        {code: number for number, code in enumerate(codes.tolist())}, cells,
        *_neighbours(times, interval, middle), _pair(times, interval, middle),
    )  # fmt: skip


def _name(table: SampleColumns, series: int) -> str:
    """`metric{labels}`, or the metric without other labels."""
    metric, label = divmod(series, len(table.labels))
    text = table.labels[label]
    return f"{table.metrics[metric]}{{{text}}}" if text else table.metrics[metric]


def _rows_of_ranks(
    rank: FloatGrid, gpu: FloatGrid, ranks: Sequence[RankInfo]
) -> tuple[Integers, Integers]:
    """Rows of a node and the place in `ranks` that each is about; a node's go to each of its ranks.

    A row with a rank is about that rank, one with a GPU alone about all ranks of the GPU.
    """
    of_node = np.isnan(rank) & np.isnan(gpu)
    rows = []
    for info in ranks:
        mine = (rank == info.rank) | of_node
        if info.gpu is not None:
            mine |= np.isnan(rank) & (gpu == info.gpu)
        rows.append(np.flatnonzero(mine))
    places = np.repeat(np.arange(len(ranks)), [len(some) for some in rows])
    return np.concatenate(rows), places


def _is_counter(metric: str) -> bool:
    known = METRICS.get(metric)
    return metric.endswith("_total") if known is None else known.kind is Kind.COUNTER


def _interval(times: FloatGrid) -> float:
    return float(np.median(np.diff(times))) if len(times) > 1 else 1.0


def _neighbours(times: FloatGrid, interval: float, middle: FloatGrid) -> tuple[Integers, Integers]:
    """(W,) the nearer and the farther of the two scrapes around; beyond MAX_AGE the last, none."""
    after = np.clip(np.searchsorted(times, middle), 0, len(times) - 1)
    before = np.maximum(after - 1, 0)
    early = np.abs(middle - times[before]) <= np.abs(times[after] - middle)

    def fresh(scrape: Integers) -> Integers:
        near = np.abs(times[scrape] - middle) <= MAX_AGE * interval
        return np.where(near, scrape, len(times))

    return fresh(np.where(early, before, after)), fresh(np.where(early, after, before))


def _pair(times: FloatGrid, interval: float, middle: FloatGrid) -> Integers:
    """(W,) the first of the two scrapes around; beyond MAX_AGE the last, which begins no pair."""
    if len(times) < 2:
        return np.zeros(len(middle), dtype=np.int64)
    place = np.clip(np.searchsorted(times, middle) - 1, 0, len(times) - 2)
    away = np.maximum(times[place] - middle, middle - times[place + 1])
    return np.where(away <= MAX_AGE * interval, place, len(times) - 1)


def _signal(
    nodes: Sequence[NodeScrapes],
    value: FloatGrid,
    series: int,
    shape: tuple[int, int],
    *,
    counts: bool,
) -> FloatGrid:
    """(W, R) a series as windows saw it."""
    found = np.full(shape, np.nan)
    for node in nodes:
        row = node.series.get(series)
        if row is not None:
            cells = _at_cells(value, node.cells[row])
            found[:, node.columns] = _rates(node, cells) if counts else _gauges(node, cells)
    return found


def _oldest(
    nodes: Sequence[NodeScrapes],
    value: FloatGrid,
    series: int,
    own: tuple[FloatGrid, FloatGrid],
    seen: Callable[[], FloatGrid],
) -> FloatGrid:
    """(W, R) an age as the oldest of the scrapes inside each rank's own windows; else as `seen`."""
    found = seen()
    for node in nodes:
        row = node.series.get(series)
        if row is None:
            continue
        cells = _at_cells(value, node.cells[row])
        for place in np.flatnonzero(np.nan_to_num(cells).max(axis=0, initial=0.0) > FRESH).tolist():
            column = node.columns[place]
            first, stop = (np.searchsorted(node.times, edges[:, column]) for edges in own)
            inside = np.flatnonzero(stop > first)
            if not inside.size:
                continue
            spans = np.column_stack([first[inside], stop[inside]]).ravel()
            oldest = np.fmax.reduceat(cells[:, place], spans)[::2]
            there = np.isfinite(oldest)
            found[inside[there], column] = oldest[there]
    return found


def _at_cells(value: FloatGrid, cells: NDArray[np.int32]) -> FloatGrid:
    return np.where(cells < 0, np.nan, value[cells])


def _gauges(node: NodeScrapes, cells: FloatGrid) -> FloatGrid:
    """(W, C) value of the nearer neighbouring scrape that had it; NaN beyond MAX_AGE."""
    first = cells[node.nearer]
    return np.where(np.isnan(first), cells[node.farther], first)


def _rates(node: NodeScrapes, cells: FloatGrid) -> FloatGrid:
    """(W, C) increase per second between the scrapes around; NaN across a reset or gap."""
    length = np.diff(node.times)
    rate = np.full((len(node.times), cells.shape[1]), np.nan)
    rate[:-1] = np.diff(cells[:-1], axis=0) / length[:, None]
    rate[rate < 0] = np.nan
    rate[:-1][length > MAX_RATE_GAP * node.interval] = np.nan
    return rate[node.pair]


def _last(
    nodes: Sequence[NodeScrapes], value: FloatGrid, names: Mapping[str, int], world: int
) -> tuple[dict[str, FloatGrid], dict[str, FloatGrid]]:
    """Name of a series -> (R,) its last value, and when that was; NaN = never."""
    values, moments = (np.full((len(names), world), np.nan) for _ in range(2))
    of = {code: row for row, code in enumerate(names.values())}
    for node in nodes:
        cells = _at_cells(value, node.cells)
        there = np.isfinite(cells[:, ::-1])
        place: Integers = len(node.times) - np.argmax(there, axis=1)
        seen = there.any(axis=1)
        here = np.array([of[code] for code in node.series])[:, None], node.columns
        told = np.take_along_axis(cells, place[:, None], axis=1)[:, 0]
        values[here] = np.where(seen, told, np.nan)
        moments[here] = np.where(seen, np.append(node.times, np.nan)[place], np.nan)
    return dict(zip(names, values, strict=True)), dict(zip(names, moments, strict=True))


def _down_since(table: SampleColumns, ranks: tuple[RankInfo, ...]) -> FloatGrid:
    """(R,) first scrape of the last unbroken row of `lockstep_rank_up 0`."""
    down = np.full(len(ranks), np.nan)
    if RANK_UP.name not in table.metrics:
        return down
    rows = np.flatnonzero(table.metric == table.metrics.index(RANK_UP.name))
    rank = table.numbers("rank", rows)
    rows, rank = rows[~np.isnan(rank)], rank[~np.isnan(rank)]
    order = np.lexsort((table.time[rows], rank))
    rank, time, value = rank[order], table.time[rows][order], table.value[rows][order]
    whose, first = np.unique(rank, return_index=True)
    column_of = {info.rank: column for column, info in enumerate(ranks)}
    for who, *span in zip(whose, first, np.append(first, len(rank))[1:], strict=True):
        mine = slice(*span)
        if value[mine][-1] > 0 or (column := column_of.get(int(who))) is None:
            continue
        alive = np.max(time[mine], initial=-np.inf, where=value[mine] > 0)
        gone = (value[mine] == 0) & (time[mine] > alive)
        down[column] = time[mine][gone][0] if gone.any() else np.nan
    return down
