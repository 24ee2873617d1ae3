"""The hardware of a fleet, as scrapes saw it, on the axes (time, GPU) and (time, node).

The time axis is the scrapes' own, not that of a run's windows: hardware is judged on nodes without
a run too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyzer.run import FloatGrid
from collector.contract import metrics

BUSY = 0.05
"""Utilisation from which a GPU works. An idle one lowers clocks, links and power by itself."""
Place = tuple[str, int]
"""(node, index of the GPU on it)."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The samples of one metric, as numbers of bin, node, GPU (-1 = not about one) and labels."""

    time: NDArray[np.int32]
    node: NDArray[np.int32]
    gpu: NDArray[np.int32]
    label: NDArray[np.int32]
    value: FloatGrid


@dataclass(frozen=True, slots=True)
class SeriesEnds:
    """One series: the numbers of its node and GPU (-1 = not about one), its bins and values."""

    node: int
    gpu: int
    labels: str
    first_bin: int
    last_bin: int
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class Panel:
    """What was scraped, one scrape a bin and node.

    Attributes:
        times: (T,) unix seconds at which each bin begins.
        seconds: Width of a bin: the time between two scrapes, or a little more.
        nodes: Every node that was scraped, N of them.
        places: Every GPU that told of itself, D of them.
        answered: (T, N) whether a scrape of the node succeeded in the bin.
        labels: The label sets that occur; samples hold their numbers.
        node_of: (D,) which of the nodes each GPU is on.
        series_of_gpus: (T, D) how many series each GPU told.
        rows: The samples by metric.
    """

    times: FloatGrid
    seconds: float
    nodes: tuple[str, ...]
    places: tuple[Place, ...]
    answered: NDArray[np.bool_]
    labels: tuple[str, ...]
    node_of: NDArray[np.int64]
    series_of_gpus: NDArray[np.int64]
    rows: Mapping[str, Rows]

    def gpus(self, metric: str, *selectors: str, without: str = "") -> FloatGrid | None:
        """(T, D) sum over the metric's series with all `selectors`, and not `without`, in labels.

        None if there is no such series.
        """
        return self._cells(metric, selectors, "gpu", len(self.places), without)

    def of_nodes(self, metric: str, *selectors: str, without: str = "") -> FloatGrid | None:
        """(T, N) the same of a node's own metric."""
        return self._cells(metric, selectors, "node", len(self.nodes), without)

    def down(self, metric: str) -> FloatGrid | None:
        """(T, D) how many of the metric's series that are told are 0; None if there is none.

        Not the sum of those that are 1: a series that was not told is not down.
        """
        rows = self.rows.get(metric)
        if rows is None or not (rows.gpu >= 0).any():
            return None
        keep, width = rows.gpu >= 0, len(self.places)
        down = (rows.value[keep] == 0).astype(float)
        return self._summed(rows.time[keep], rows.gpu[keep], down, width)

    def first_and_last(self, metric: str) -> list["SeriesEnds"]:
        """Each series of the metric with its first and last value: for info series and events."""
        rows = self.rows.get(metric)
        if rows is None:
            return []
        width = np.int64(len(self.places) + 1)
        key = (rows.node * width + rows.gpu + 1) * len(self.labels) + rows.label
        order = np.lexsort((rows.time, key))
        key = key[order]
        begins = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
        first, last = order[begins], order[np.r_[begins[1:], len(order)] - 1]
        columns = (rows.node[first], rows.gpu[first], rows.label[first], rows.time[first],
                   rows.time[last], rows.value[first], rows.value[last])  # fmt: skip
        return [
            SeriesEnds(node, gpu, self.labels[label], *rest)
            for node, gpu, label, *rest in zip(*(each.tolist() for each in columns), strict=True)
        ]

    def rises(
        self, metric: str, *selectors: str, without: str = "", of_node: bool = False,
        fresh: bool = False,
    ) -> FloatGrid | None:  # fmt: skip
        """(T, D), or (T, N) of nodes: by how much the counters rose since each was last told.

        Each series is followed on its own: one that comes and goes, as a virtual network device's,
        or begins anew, does not rise by that. NaN where nothing was told; None without series.

        Args:
            metric: A counter.
            selectors, without: As in `gpus`.
            of_node: The node's own.
            fresh: A series that appears after the first scrape rose from 0: a first count.
        """
        rows, width = self.rows.get(metric), len(self.nodes if of_node else self.places)
        if rows is None:
            return None
        column = rows.node if of_node else rows.gpu
        keep = np.flatnonzero(self._wanted(selectors, without)[rows.label] & (column >= 0))
        key = column[keep] * np.int64(len(self.labels)) + rows.label[keep]
        keep = keep[np.lexsort((rows.time[keep], key))]
        if not keep.size:
            return None
        column, label, time = column[keep], rows.label[keep], rows.time[keep]
        same = np.r_[False, (column[1:] == column[:-1]) & (label[1:] == label[:-1])]
        value = rows.value[keep]
        rise = np.where(same, np.maximum(np.diff(value, prepend=value[:1]), 0.0), 0.0)
        if fresh:
            first = np.argmax(self.answered, axis=0)[rows.node[keep]]
            rise = np.where(~same & (time > first), value, rise)
        return self._summed(time, column, rise, width)

    def _cells(
        self, metric: str, selectors: Sequence[str], axis: str, width: int, without: str
    ) -> FloatGrid | None:
        rows = self.rows.get(metric)
        if rows is None:
            return None
        column = rows.gpu if axis == "gpu" else rows.node
        keep = self._wanted(selectors, without)[rows.label] & (column >= 0)
        keep &= np.isfinite(rows.value)
        if not keep.any():
            return None
        return self._summed(rows.time[keep], column[keep], rows.value[keep], width)

    def _wanted(self, selectors: Sequence[str], without: str) -> NDArray[np.bool_]:
        """Of each label set, whether it holds all the selectors and not `without`."""
        return np.array([
            all(each in label for each in selectors) and not (without and without in label)
            for label in self.labels
        ], dtype=bool)  # fmt: skip

    def _summed(
        self, time: NDArray[np.int32], column: NDArray[np.int32], values: FloatGrid, width: int
    ) -> FloatGrid:
        """(T, width) sums of the values at their places; NaN where there is none."""
        flat = time * np.int64(width) + column
        size = len(self.times) * width
        count = np.bincount(flat, minlength=size)
        total = np.bincount(flat, weights=values, minlength=size)
        return np.where(count > 0, total, np.nan).reshape(len(self.times), width)

    def busy(self) -> NDArray[np.bool_]:
        """(T, D) whether the GPU worked; one that does not tell is taken to."""
        used = self.gpus(metrics.GPU_UTILIZATION.name)
        if used is None:
            return np.ones((len(self.times), len(self.places)), dtype=bool)
        return ~(used < BUSY)
