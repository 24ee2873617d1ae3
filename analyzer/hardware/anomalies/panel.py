"""The hardware of a fleet, as scrapes saw it, on the axes (time, GPU) and (time, node).

The time axis is the scrapes' own, not that of a run's windows: hardware is judged on nodes without
a run too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.align.sample_columns import SampleColumns, numbered
from lockstep.analyzer.align.telemetry import OnDemand
from lockstep.analyzer.causes.symptoms.series import SCRAPE_SECONDS
from lockstep.analyzer.hardware.anomalies.distances import LASTS_BINS, PASSING, rolling
from lockstep.analyzer.read.archive.files import LATEST
from lockstep.analyzer.shapes.labels import parsed
from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.analyzer.stats.robust_stats import mean
from lockstep.collector.contract import metrics

BUSY = 0.05
"""Utilisation from which a GPU works. An idle one lowers clocks, links and power by itself. Chosen:
what asks an idle GPU for its state takes a percent or two."""
Place = tuple[str, int]
"""(node, index of the GPU on it)."""
Integers = NDArray[np.int64]


class Rows(NamedTuple):
    """The samples of one metric, as numbers of bin, node, GPU (-1 = not about one) and labels."""

    time: NDArray[np.int32]
    node: NDArray[np.int32]
    gpu: NDArray[np.int32]
    label: NDArray[np.int32]
    value: FloatGrid

    def at(self, places: NDArray[np.bool_] | NDArray[np.intp]) -> "Rows":
        """Some of them, or all in another order."""
        return Rows(
            self.time[places], self.node[places], self.gpu[places], self.label[places],
            self.value[places],
        )  # fmt: skip


class SeriesEnds(NamedTuple):
    """One series: the numbers of its node and GPU (-1 = not about one), its bins and values."""

    node: int
    gpu: int
    labels: str
    first_bin: int
    last_bin: int
    first: float
    last: float


@dataclass(frozen=True)
class Panel:
    """What was scraped, one scrape a bin and node.

    Attributes:
        times: (T,) unix seconds at which each bin begins.
        seconds: Width of a bin: the time between two scrapes, or a little more.
        nodes: Every node that was scraped, N of them.
        places: Every GPU that reported, D of them.
        answered: (T, N) whether a scrape of the node succeeded in the bin.
        labels: The label sets that occur; samples hold their numbers.
        node_of: (D,) which of the nodes each GPU is on.
        series_of_gpus: (T, D) how many series each GPU told.
        stage: (D,) pipeline stage of the rank on it; -1 = not known, or no rank.
        rows: The samples by metric.
    """

    times: FloatGrid
    seconds: float
    nodes: tuple[str, ...]
    places: tuple[Place, ...]
    answered: NDArray[np.bool_]
    labels: tuple[str, ...]
    node_of: Integers
    series_of_gpus: Integers
    stage: Integers
    rows: Mapping[str, Rows]

    def cells(
        self, metric: str, label: str = "", *, without: str = "", of_node: bool = False,
        down: bool = False,
    ) -> FloatGrid | None:  # fmt: skip
        """(T, D), or (T, N) of nodes: the sum over a metric's series; None if there is none.

        Args:
            metric: Name in the contract.
            label: What the labels of a series that is wanted hold; empty = of all.
            without: What they do not hold.
            of_node: The node's own.
            down: How many of the series that are told are 0. Not the sum of those that are 1: a
                series that was not told is not down.
        """
        rows = self._wanted(metric, label, without, of_node=of_node)
        if rows is None:
            return None
        values = (rows.value == 0).astype(float) if down else rows.value
        return self._summed(rows, values, of_node=of_node)

    def rises(
        self, metric: str, label: str = "", *, without: str = "", of_node: bool = False,
        fresh: bool = False, most: bool = False,
    ) -> FloatGrid | None:  # fmt: skip
        """The same of by how much the counters rose since each was last reported.

        Each series is followed on its own: one that comes and goes, as a virtual network device's,
        or begins anew, does not rise by that. NaN where nothing was reported.

        Args:
            metric, label, without, of_node: As of `cells`.
            fresh: A series that appears after the first scrape rose from 0: a first count.
            most: The largest of the series, not their sum.
        """
        rows = self._wanted(metric, label, without, of_node=of_node)
        if rows is None:
            return None
        column = rows.node if of_node else rows.gpu
        order = np.lexsort((rows.time, rows.label, column))
        rows, column = rows.at(order), column[order]
        same = (np.diff(column, prepend=-1) == 0) & (np.diff(rows.label, prepend=-1) == 0)
        rise = np.where(same, np.maximum(np.diff(rows.value, prepend=0.0), 0.0), 0.0)
        if fresh:
            begin = np.argmax(self.answered, axis=0)[rows.node]
            rise = np.where(~same & (rows.time > begin), rows.value, rise)
        return self._summed(rows, rise, of_node=of_node, most=most)

    def rates(
        self, metric: str, label: str = "", *, without: str = "", of_node: bool = False,
        most: bool = False,
    ) -> FloatGrid | None:  # fmt: skip
        """The same as increase per second since what was reported before.

        Smoothed over as many scrapes as levels are, by their mean and not their median: errors come
        in bursts.
        """
        rises = self.rises(metric, label, without=without, of_node=of_node, most=most)
        if rises is None:
            return None
        times = np.where(np.isfinite(rises), self.times[:, None], -np.inf)
        before = np.roll(np.maximum.accumulate(times, axis=0), 1, axis=0)
        before[0] = -np.inf
        there = np.isfinite(times) & np.isfinite(before)
        rate = np.where(there, rises / (self.times[:, None] - before), np.nan)
        return np.where(there, mean(rolling(rate, 2 * PASSING, 0), -1), np.nan)

    def series(self, metric: str) -> list[SeriesEnds]:
        """Each series of the metric with its first and last value: for info series and events."""
        rows = self.rows.get(metric)
        if rows is None or not rows.time.size:
            return []
        key = (rows.node * np.int64(len(self.places) + 1) + rows.gpu + 1) * len(self.labels)
        order = np.lexsort((rows.time, key + rows.label))
        rows, key = rows.at(order), (key + rows.label)[order]
        begins = np.flatnonzero(np.diff(key, prepend=-1))
        first, last = rows.at(begins), rows.at(np.append(begins[1:], len(key)) - 1)
        columns = (first.node, first.gpu, first.label, first.time, last.time, first.value,
                   last.value)  # fmt: skip
        return [
            SeriesEnds(node, gpu, self.labels[label], *rest)
            for node, gpu, label, *rest in zip(*(each.tolist() for each in columns), strict=True)
        ]

    def believed(self, since: Integers, doubted: Mapping[str, NDArray[np.bool_]]) -> "Panel":
        """Without what another part told that was in a GPU's place, and without what is doubted.

        Args:
            since: (D,) first bin of the part that is there now, 0 = always. The first scrape of
                another part compares it with the one before: left out too.
            doubted: (D,) by metric: GPUs whose series are not to be believed.
        """
        if not since.any() and not doubted:
            return self

        def rows(metric: str) -> Rows:
            told = self.rows[metric]
            about = np.maximum(told.gpu, 0)
            wrong = (since[about] > 0) & (told.time <= since[about])
            if metric in doubted:
                wrong |= doubted[metric][about]
            return told.at(~wrong | (told.gpu < 0))

        return replace(self, rows=OnDemand({name: partial(rows, name) for name in self.rows}))

    @cached_property
    def kind(self) -> Integers:
        """(D,) number of the GPU's model; those without one are of one kind."""
        models = [parsed(text).get("model", "") for text in self._infos]
        return np.unique(np.array(models, dtype=str), return_inverse=True)[1].astype(np.int64)

    @cached_property
    def simulated(self) -> NDArray[np.bool_]:
        """(D,) whether it is a simulated GPU."""
        return np.array([parsed(text).get("simulated") == "true" for text in self._infos], bool)

    @cached_property
    def busy(self) -> NDArray[np.bool_]:
        """(T, D) whether the GPU worked; one that does not report is taken to."""
        used = self.cells(metrics.GPU_UTILIZATION.name)
        return np.ones(self.series_of_gpus.shape, bool) if used is None else ~(used < BUSY)

    def alike(self, *, works: bool, by_load: bool = False) -> Integers:
        """(T, D) groups for peers.peer_distances: same model, both at work or both idle.

        Args:
            works: Leave out GPUs that do not work; else those whose load changed in the last
                LASTS_BINS, which heat and power still follow.
            by_load: The same pipeline stage too; those of which it is not known are left out.
        """
        if by_load:
            group = self.kind * (self.stage.max(initial=-1) + 1) + self.stage
            return np.where(self.busy & (self.stage >= 0), group, -1)
        if works:
            return np.where(self.busy, self.kind, -1)
        settled = ~_changed_lately(self.busy)
        return np.where(settled, 2 * self.kind + self.busy, -1)

    @cached_property
    def _infos(self) -> list[str]:
        """(D,) labels of each GPU's info series, as last reported."""
        infos = sorted(self.series(metrics.GPU_INFO.name), key=lambda ends: ends.last_bin)
        last = {ends.gpu: ends.labels for ends in infos}
        return [last.get(gpu, "") for gpu in range(len(self.places))]

    def _wanted(self, metric: str, label: str, without: str, *, of_node: bool) -> Rows | None:
        rows = self.rows.get(metric)
        if rows is None:
            return None
        right = np.array([
            label in text and not (without and without in text) for text in self.labels
        ], dtype=bool)  # fmt: skip
        keep = right[rows.label] & ((rows.node if of_node else rows.gpu) >= 0)
        return rows.at(keep) if keep.any() else None

    def _summed(
        self, rows: Rows, values: FloatGrid, *, of_node: bool, most: bool = False
    ) -> FloatGrid:
        """Sums of the rows' values at their places, or the largest; NaN where there is none."""
        width = len(self.nodes if of_node else self.places)
        flat = rows.time * np.int64(width) + (rows.node if of_node else rows.gpu)
        size = len(self.times) * width
        count, total = np.bincount(flat, minlength=size), np.bincount(flat, values, size)
        if most:
            total = np.full(size, -np.inf)
            np.maximum.at(total, flat, values)
        return np.where(count > 0, total, np.nan).reshape(len(self.times), width)


def _changed_lately(busy: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(T, D) whether the load changed in the last LASTS_BINS."""
    changes = np.zeros(busy.shape, dtype=np.int64)
    changes[1:] = np.cumsum(busy[1:] != busy[:-1], axis=0)
    changes[LASTS_BINS:] -= changes[:-LASTS_BINS].copy()
    lately: NDArray[np.bool_] = changes > 0
    return lately


LATE_SCRAPES = 0.9
"""A bin is as wide as this share of the pauses between scrapes, so that few bins stay empty where
scrapes come late; where they come on time it is the interval. Chosen."""
MOST_BINS = 2_000
"""Longer recordings are looked at in wider bins: chosen for memory; eight hours at 15 s fit as they
are."""
LARGEST = float(np.finfo(np.float32).max)
"""No metric of the contract comes near; below it, sums and differences stay finite too."""


@dataclass(frozen=True, slots=True)
class NodeScrapes:
    """The scrapes of one node.

    Attributes:
        node: Its name.
        times: (T,) unix seconds, rising.
        answered: (T,) whether the scrape succeeded.
        gpus: (G,) indexes of the GPUs that reported, rising.
        series: (T, G) how many series each of them reported.
    """

    node: str
    times: FloatGrid
    answered: NDArray[np.bool_]
    gpus: Integers
    series: Integers


def as_panel(samples: pd.DataFrame, stages: Mapping[Place, int]) -> Panel:
    """The samples as a panel; of several scrapes in a bin the last one counts.

    Values that no hardware has are dropped: NaN, infinite and beyond LARGEST.

    Args:
        samples: contract.archive.SAMPLES.
        stages: Pipeline stage of the rank on a GPU, where there is a rank.
    """
    table = SampleColumns(samples)
    scrape = np.full(len(table.time), -1, dtype=np.int32)
    nodes = list(_nodes(table, scrape))
    of_node = np.repeat(
        np.arange(len(nodes), dtype=np.int32), [len(scrapes.times) for scrapes in nodes]
    )
    when = np.concatenate([np.empty(0), *(scrapes.times for scrapes in nodes)])
    width = _width(of_node, when)
    begin = float(when.min()) if len(when) else 0.0
    bins = ((when - begin) / width).astype(np.int32)
    last = np.ones(len(when), dtype=bool)
    last[:-1] = (of_node[1:] != of_node[:-1]) | (bins[1:] != bins[:-1])
    count = int(bins.max()) + 1 if len(bins) else 0
    places = [(scrapes.node, gpu) for scrapes in nodes for gpu in scrapes.gpus.tolist()]
    node_of = np.repeat(np.arange(len(nodes)), [len(scrapes.gpus) for scrapes in nodes])
    answered = np.zeros((count, len(nodes)), dtype=bool)
    series_of_gpus = np.zeros((count, len(places)), dtype=np.int64)
    for number, scrapes in enumerate(nodes):
        mine = of_node == number
        answered[bins[mine][scrapes.answered], number] = True
        kept = last[mine]
        series_of_gpus[np.ix_(bins[mine][kept], node_of == number)] = scrapes.series[kept]
    index = np.array([gpu for _, gpu in places], dtype=np.int64)
    stride = int(index.max(initial=0)) + 1

    def rows(metric: int) -> Rows:
        mine = np.flatnonzero(table.metric == metric)
        mine = mine[(scrape[mine] >= 0) & last[scrape[mine]]]
        node = of_node[scrape[mine]]
        gpu = table.numbers("gpu", mine)
        known = np.isfinite(gpu) & (gpu >= 0)
        number = np.full(len(mine), -1, dtype=np.int32)
        number[known] = np.searchsorted(
            node_of * stride + index, node[known] * np.int64(stride) + gpu[known].astype(np.int64)
        )
        return Rows(bins[scrape[mine]], node, number, table.label(mine), table.value[mine])

    return Panel(
        times=begin + width * np.arange(count, dtype=np.float64),
        seconds=width,
        nodes=tuple(scrapes.node for scrapes in nodes),
        places=tuple(places),
        answered=answered,
        labels=tuple(table.labels),
        node_of=node_of,
        series_of_gpus=series_of_gpus,
        stage=np.array([stages.get(place, -1) for place in places], dtype=np.int64),
        rows=OnDemand({name: partial(rows, metric) for metric, name in enumerate(table.metrics)}),
    )


def _nodes(table: SampleColumns, scrape: NDArray[np.int32]) -> Iterator[NodeScrapes]:
    """The nodes; `scrape` gets the number of each row's scrape, -1 = its value does not count."""
    first = 0
    for name, rows in table.nodes():
        time = table.time[rows]
        right = (time >= 0) & (time <= LATEST) & (table.metric[rows] >= 0)
        rows = rows[right]
        if not len(rows):
            continue
        positions, times = numbered(time[right])
        value = table.value[rows]
        failed = table.is_up(rows) & (value == 0)
        fine = ~failed & (np.abs(value) <= LARGEST)
        scrape[rows] = np.where(fine, first + positions, -1)
        answered = np.zeros(len(times), dtype=bool)
        answered[positions[~failed]] = True
        gpu = table.numbers("gpu", rows)
        known = np.isfinite(gpu) & (gpu >= 0)
        number, gpus = numbered(gpu[known])
        flat = (positions[known] * len(gpus) + number)[fine[known]]
        series = np.bincount(flat, minlength=len(times) * len(gpus))
        series = series.reshape(len(times), len(gpus))
        yield NodeScrapes(name, times, answered, gpus.astype(np.int64), series)
        first += len(times)


def _width(of_node: NDArray[np.int32], when: FloatGrid) -> float:
    same = of_node[1:] == of_node[:-1]
    steps = np.diff(when)[same]
    steps = steps[steps > 0]
    usual = float(np.quantile(steps, LATE_SCRAPES)) if steps.size else SCRAPE_SECONDS
    span = float(when.max() - when.min()) if len(when) else 0.0
    return max(usual, span / MOST_BINS)
