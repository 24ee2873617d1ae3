"""The charts of the hardware under a run: GPU utilisation, CPU, memory and network."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lockstep.analyzer.read.archive.series import Series, moments, panel
from lockstep.analyzer.read.archive.steps import middle
from lockstep.collector.contract import metrics
from lockstep.collector.contract.metrics import Metric
from lockstep.dashboard.shapes import Floats, Lines
from lockstep.dashboard.sources.chart_table import (
    HIGHEST,
    LOWEST,
    MEDIAN,
    OWN_CHARTS_AT_MOST,
    RUN_CHARTS,
    Chart,
    own_chart,
    own_key,
)
from lockstep.dashboard.sources.chart_table import lines as lines_of
from lockstep.dashboard.sources.grid import thin

OF_A_RUN: tuple[Metric, ...] = (
    metrics.GPU_UTILIZATION, metrics.HOST_CPU, metrics.HOST_MEMORY_TOTAL,
    metrics.HOST_MEMORY_AVAILABLE, metrics.NET_BYTES, metrics.IB_DATA, metrics.TRAIN_VALUE,
)  # fmt: skip
IDLE = ("idle", "iowait")
LOOPBACK = "lo"
WHOLE_SHARE = 0.8
"""Of the interval: a last scrape that comes sooner is none of the rhythm."""
LEAST_SCRAPES = 3
"""From so many intervals on there is a rhythm."""


def lines(series: Sequence[Series]) -> tuple[Lines, ...]:
    """gpu, cpu, memory and network of the whole run; one that nobody told of has no values."""
    by = {metric.name: [line for line in series if line.metric == metric.name]
          for metric in OF_A_RUN}  # fmt: skip
    gpu = _band("gpu", by[metrics.GPU_UTILIZATION.name], query=metrics.GPU_UTILIZATION.name)
    cpu = _band(
        "cpu", busy(by[metrics.HOST_CPU.name]),
        query=f"rate({metrics.HOST_CPU.name}), without idle and iowait, over all modes",
    )  # fmt: skip
    memory = _band(
        "memory",
        used(by[metrics.HOST_MEMORY_TOTAL.name], by[metrics.HOST_MEMORY_AVAILABLE.name]),
        query=f"1 - {metrics.HOST_MEMORY_AVAILABLE.name} / {metrics.HOST_MEMORY_TOTAL.name}",
    )
    own = _own(by[metrics.TRAIN_VALUE.name])
    return tuple(thin(rate) for rate in (gpu, cpu, memory, network(series), *own))


def _own(series: Sequence[Series]) -> list[Lines]:
    """A chart a name that the program logs."""
    names = sorted({line.label.get("name", "") for line in series} - {""})
    charts = []
    for name in names[:OWN_CHARTS_AT_MOST]:
        mine = [settled(line) for line in series if line.label.get("name") == name]
        query = f'{metrics.TRAIN_VALUE.name}{{name="{name}"}}'
        charts.append(_band(own_key(name), mine, query=query, chart=own_chart(name)))
    return charts


def busy(modes: Sequence[Series]) -> list[Series]:
    """Share of processor time that was not idle, a series a node."""
    charts = []
    for node in dict.fromkeys(mode.node for mode in modes):
        mine = [settled(mode).rate() for mode in modes if mode.node == node]
        times, interval = moments(mine)
        rates = panel(mine, times, interval)
        whole = rates.sum(axis=1)
        idle = rates[:, [each.label.get("mode") in IDLE for each in mine]].sum(axis=1)
        share = np.where(whole > 0, 1 - idle / np.where(whole > 0, whole, 1.0), np.nan)
        charts.append(Series(mine[0].metric, "", node, -1, -1, times, share))
    return charts


def used(totals: Sequence[Series], left: Sequence[Series]) -> list[Series]:
    """Share of memory that is not available, a series a node."""
    charts = []
    for each in map(settled, left):
        whole = next((other for other in totals if other.node == each.node), None)
        if whole is None:
            continue
        size = whole.at(each.times, whole.interval if len(whole.times) > 1 else 1.0)
        share = np.where(size > 0, 1 - each.values / np.where(size > 0, size, 1.0), np.nan)
        charts.append(replace(each, values=share))
    return charts


def network(series: Sequence[Series]) -> Lines:
    """Bytes per second in and out, over all devices but the loopback."""
    wanted = (metrics.NET_BYTES.name, metrics.IB_DATA.name)
    mine = [line for line in series
            if line.metric in wanted and line.label.get("device") != LOOPBACK]  # fmt: skip
    rates = [settled(each).rate() for each in mine]
    times, interval = moments(rates)
    values = {}
    for direction in ("receive", "transmit"):
        some = [rate for rate in rates if rate.label.get("direction") == direction]
        if some:
            values[direction] = summed(panel(some, times, interval))
    query = f"rate({metrics.NET_BYTES.name}), rate({metrics.IB_DATA.name})"
    return _chart("network", times, values, query=query)


def settled(series: Series) -> Series:
    """A series without the last scrapes for which nobody waited a whole interval.

    A run that ends is scraped once more, at once: programs are gone by then, and of counters too
    little time has passed to make a rate.
    """
    passed = np.diff(series.times)
    if len(passed) < LEAST_SCRAPES:
        return series
    whole = np.flatnonzero(passed >= WHOLE_SHARE * np.median(passed))
    end = int(whole[-1]) + 2
    return replace(series, times=series.times[:end], values=series.values[:end])


def summed(values: Floats) -> Floats:
    """(T,) over series; NaN where none told."""
    known = np.isfinite(values)
    total: Floats = np.where(known.any(axis=1), np.where(known, values, 0.0).sum(axis=1), np.nan)
    return total


def _band(key: str, series: Sequence[Series], *, query: str, chart: Chart | None = None) -> Lines:
    """Lowest, median and highest of some series."""
    times, interval = moments(series)
    values = panel(series, times, interval)
    if not values.size:
        return _chart(key, times, {}, query=query, chart=chart)
    if values.shape[1] == 1 and chart is not None:
        return _chart(key, times, {f"rank {series[0].rank}": values[:, 0]}, query=query,
                      chart=chart)  # fmt: skip
    edges = {LOWEST: np.fmin.reduce(values, axis=1), MEDIAN: middle(values),
             HIGHEST: np.fmax.reduce(values, axis=1)}  # fmt: skip
    shown = _chart(key, times, edges, query=query, chart=chart)
    return replace(shown, band=(LOWEST, HIGHEST) if shown.values else None)


def _chart(
    key: str, times: Floats, values: dict[str, Floats], *, query: str, chart: Chart | None = None
) -> Lines:
    if not any(np.isfinite(line).any() for line in values.values()):
        times, values = np.zeros(0), {}
    return lines_of(chart or RUN_CHARTS[key], key, times, values, query=query)
