"""Charts of one node and one GPU: the chart table, read as samples of an archive."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from lockstep.analyzer.read.archive.series import NOBODY, Series, moments, panel
from lockstep.analyzer.read.archive.steps import quantiles
from lockstep.collector.contract import metrics
from lockstep.collector.contract.metrics import Metric
from lockstep.dashboard.shapes import Floats, Lines
from lockstep.dashboard.sources.archive.hardware import busy, network, summed, used
from lockstep.dashboard.sources.chart_table import (
    BESIDE_PEERS,
    BUSY,
    GPU_CHARTS,
    IN_USE,
    NODE_CHARTS,
    PEERS,
    Chart,
    Over,
    Row,
)
from lockstep.dashboard.sources.chart_table import lines as lines_of
from lockstep.dashboard.sources.grid import thin

PEER_QUANTILES = (0.05, 0.95)
_HOST = (metrics.HOST_CPU, metrics.HOST_MEMORY_TOTAL, metrics.HOST_MEMORY_AVAILABLE,
         metrics.NET_BYTES, metrics.IB_DATA)  # fmt: skip


def metrics_of(rows: Iterable[Row]) -> tuple[Metric, ...]:
    """The metrics of some rows of the table."""
    return tuple(dict.fromkeys(row.metric for row in rows))


OF_PEERS = metrics_of(row for key in BESIDE_PEERS for row in NODE_CHARTS[key].rows)
OF_A_NODE: tuple[Metric, ...] = (*_HOST, *metrics_of(
    row for key, chart in NODE_CHARTS.items() if key not in BESIDE_PEERS for row in chart.rows
))  # fmt: skip
OF_A_GPU = metrics_of(row for chart in GPU_CHARTS.values() for row in chart.rows)


def of_node(series: Sequence[Series], of_gpus: Sequence[Series], node: str) -> tuple[Lines, ...]:
    """The charts of a node.

    Args:
        series: OF_A_NODE of the node.
        of_gpus: OF_PEERS of all nodes.
        node: Its name.
    """
    by = {metric.name: [line for line in series if line.metric == metric.name] for metric in _HOST}
    total, left = metrics.HOST_MEMORY_TOTAL.name, metrics.HOST_MEMORY_AVAILABLE.name
    cpu, memory = busy(by[metrics.HOST_CPU.name]), used(by[total], by[left])
    host = {
        "cpu": _line("cpu", cpu, BUSY, f"rate({metrics.HOST_CPU.name}), without idle and iowait"),
        "memory": _line("memory", memory, IN_USE, f"1 - {left} / {total}"),
        "network": replace(network(series), help=NODE_CHARTS["network"].help),
    }
    peers = {key: _beside_peers(key, of_gpus, node) for key in BESIDE_PEERS}
    others = {key: drawn(key, chart, series)
              for key, chart in NODE_CHARTS.items() if key not in peers | host}  # fmt: skip
    charts = peers | host | others
    return tuple(thin(charts[key]) for key in NODE_CHARTS)


def of_gpu(series: Sequence[Series]) -> tuple[Lines, ...]:
    """The charts of a GPU, of its own series only; those that nobody told are left out."""
    drawn_charts = (thin(drawn(key, chart, series)) for key, chart in GPU_CHARTS.items())
    return tuple(chart for chart in drawn_charts if chart.values)


def drawn(key: str, chart: Chart, series: Sequence[Series]) -> Lines:
    """A chart of the table, of all series that belong to its rows."""
    by_line: dict[str, tuple[Row, list[Series]]] = {}
    for row in chart.rows:
        for line in series:
            if belongs(line, row):
                name = row.named({**line.label, "gpu": str(line.gpu)})
                by_line.setdefault(name, (row, []))[1].append(_over(row.over, line))
    times, interval = moments([each for _, some in by_line.values() for each in some])
    values: dict[str, Floats] = {}
    for name, (row, some) in by_line.items():
        across = panel(some, times, interval)
        values[name] = summed(across) if row.summed else np.fmax.reduce(across, axis=1)
    known = any(np.isfinite(line).any() for line in values.values())
    query = ", ".join(metric.name for metric in metrics_of(chart.rows))
    return lines_of(chart, key, times if known else np.zeros(0), values, query=query)


def belongs(series: Series, row: Row) -> bool:
    """Whether a row of the table is about a series."""
    return series.metric == row.metric.name and all(
        series.label.get(name) == value for name, value in row.equal.items()
    )


def _beside_peers(key: str, series: Sequence[Series], node: str) -> Lines:
    """A line a GPU of the node, and the band of the run's other GPUs."""
    chart = NODE_CHARTS[key]
    (row,) = chart.rows
    gpus = [line for line in series if belongs(line, row) and line.gpu != NOBODY]
    mine = sorted((gpu for gpu in gpus if gpu.node == node), key=lambda each: each.gpu)
    others = [gpu for gpu in gpus if gpu.node != node]
    chart_of_node = drawn(key, chart, mine)
    if not (others and chart_of_node.values):
        return chart_of_node
    edges = quantiles(panel(others, *moments(mine)), PEER_QUANTILES)
    values: Mapping[str, Floats] = {**chart_of_node.values, **dict(zip(PEERS, edges, strict=True))}
    return lines_of(chart, key, chart_of_node.times, values, band=PEERS, query=chart_of_node.query)


def _line(key: str, series: Sequence[Series], line: str, query: str) -> Lines:
    times, interval = moments(series)
    values = {line: series[0].at(times, interval)} if series else {}
    return lines_of(NODE_CHARTS[key], key, times, values, query=query)


def _over(over: Over, series: Series) -> Series:
    """Of a gauge all samples are kept: thinning a line loses none of its peaks."""
    if over == Over.RATE:
        return series.rate()
    if over == Over.GROWN:
        since = np.diff(series.values, prepend=np.nan)
        return replace(series, values=np.where(since >= 0, since, np.nan))
    return series
