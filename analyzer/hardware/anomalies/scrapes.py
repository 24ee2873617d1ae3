"""Samples -> a Panel: one scrape a bin and node."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.align.sample_columns import Integers, SampleColumns, numbered
from lockstep.analyzer.align.telemetry import OnDemand
from lockstep.analyzer.causes.symptoms.series import SCRAPE_SECONDS
from lockstep.analyzer.hardware.anomalies.panel import Panel, Place, Rows
from lockstep.analyzer.read.archive.files import LATEST
from lockstep.analyzer.shapes.run import FloatGrid

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
        gpus: (G,) indexes of the GPUs that told of themselves, rising.
        told: (T, G) how many series each of them told.
    """

    node: str
    times: FloatGrid
    answered: NDArray[np.bool_]
    gpus: Integers
    told: Integers


def panel(samples: pd.DataFrame, stages: Mapping[Place, int]) -> Panel:
    """The panel; of several scrapes in a bin the last one counts.

    Values that no hardware has are dropped: NaN, infinite and beyond LARGEST.

    Args:
        samples: contract.archive.SAMPLES.
        stages: Pipeline stage of the rank on a GPU, where there is a rank.
    """
    table = SampleColumns(samples)
    scrape = np.full(len(table.time), -1, dtype=np.int32)
    nodes = list(_nodes(table, scrape))
    of_node = np.repeat(np.arange(len(nodes), dtype=np.int32), [len(each.times) for each in nodes])
    when = np.concatenate([np.empty(0), *(each.times for each in nodes)])
    width = _width(of_node, when)
    begin = float(when.min()) if len(when) else 0.0
    bins = ((when - begin) / width).astype(np.int32)
    last = np.ones(len(when), dtype=bool)
    last[:-1] = (of_node[1:] != of_node[:-1]) | (bins[1:] != bins[:-1])
    count = int(bins.max()) + 1 if len(bins) else 0
    places = [(each.node, gpu) for each in nodes for gpu in each.gpus.tolist()]
    node_of = np.repeat(np.arange(len(nodes)), [len(each.gpus) for each in nodes])
    answered = np.zeros((count, len(nodes)), dtype=bool)
    series_of_gpus = np.zeros((count, len(places)), dtype=np.int64)
    for number, each in enumerate(nodes):
        mine = of_node == number
        answered[bins[mine][each.answered], number] = True
        kept = last[mine]
        series_of_gpus[np.ix_(bins[mine][kept], node_of == number)] = each.told[kept]
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
        nodes=tuple(each.node for each in nodes),
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
        place, times = numbered(time[right])
        value = table.value[rows]
        failed = table.is_up(rows) & (value == 0)
        fine = ~failed & (np.abs(value) <= LARGEST)
        scrape[rows] = np.where(fine, first + place, -1)
        answered = np.zeros(len(times), dtype=bool)
        answered[place[~failed]] = True
        gpu = table.numbers("gpu", rows)
        known = np.isfinite(gpu) & (gpu >= 0)
        number, gpus = numbered(gpu[known])
        flat = (place[known] * len(gpus) + number)[fine[known]]
        told = np.bincount(flat, minlength=len(times) * len(gpus))
        told = told.reshape(len(times), len(gpus))
        yield NodeScrapes(name, times, answered, gpus.astype(np.int64), told)
        first += len(times)


def _width(of_node: NDArray[np.int32], when: FloatGrid) -> float:
    same = of_node[1:] == of_node[:-1]
    steps = np.diff(when)[same]
    steps = steps[steps > 0]
    usual = float(np.quantile(steps, LATE_SCRAPES)) if steps.size else SCRAPE_SECONDS
    span = float(when.max() - when.min()) if len(when) else 0.0
    return max(usual, span / MOST_BINS)
