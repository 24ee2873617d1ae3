"""Charts of one node and one GPU: which series make which line."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from analyzer.readers.archive.series import NOBODY, Series, moments, panel
from analyzer.readers.archive.steps import quantiles
from collector.contract import metrics
from collector.contract.metrics import Metric
from dashboard.shapes import Floats, Lines
from dashboard.sources.archive.hardware import busy, network, summed, used
from dashboard.sources.downsample import thin
from dashboard.sources.titles import BUSY, GPU_CHARTS, IN_USE, NODE_CHARTS, PEERS, Title
from dashboard.sources.titles import lines as lines_of

PEER_QUANTILES = (0.05, 0.95)


class Shown(StrEnum):
    """What of a series is drawn."""

    VALUE = "value"
    RATE = "rate"
    GROWN = "grown"


@dataclass(frozen=True, slots=True)
class Part:
    """Some series of a chart.

    Attributes:
        metric: Which.
        line: Name of the line; `{label}` is replaced by the series' label. Series whose line has
            one name are summed.
        label: What must stand in the labels; empty = anything.
        shown: Value, rate per second, or what it grew since the scrape before.
    """

    metric: Metric
    line: str
    label: str = ""
    shown: Shown = Shown.VALUE


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart; its query is the names of its metrics.

    Attributes:
        titles: Where its title stands.
    """

    key: str
    titles: Mapping[str, Title]
    parts: tuple[Part, ...]


OF_GPUS = (
    Chart("utilization", NODE_CHARTS, (Part(metrics.GPU_UTILIZATION, "utilisation"),)),
    Chart("temperature", NODE_CHARTS, (Part(metrics.GPU_TEMPERATURE, "GPU", 'sensor="gpu"'),)),
    Chart("power", NODE_CHARTS, (Part(metrics.GPU_POWER, "draw"),)),
    Chart("clock", NODE_CHARTS, (Part(metrics.GPU_CLOCK, "SM", 'domain="sm"'),)),
)
OF_A_NODE: tuple[Chart, ...] = (
    Chart("disk", NODE_CHARTS, (Part(metrics.DISK_BYTES, "{direction}", "", Shown.RATE),)),
    Chart("errors", NODE_CHARTS, (
        Part(metrics.GPU_XID_ERRORS, "XIDs", "", Shown.GROWN),
        Part(metrics.GPU_ECC_ERRORS, "memory errors, {type}", 'counter="volatile"', Shown.GROWN),
        Part(metrics.GPU_PCIE_REPLAY, "PCIe replays", "", Shown.GROWN),
        Part(metrics.GPU_NVLINK_ERRORS, "NVLink errors", "", Shown.GROWN),
        Part(metrics.IB_ERRORS, "InfiniBand errors", "", Shown.GROWN),
        Part(metrics.NET_ERRORS, "network errors", "", Shown.GROWN),
        Part(metrics.NET_DROPS, "network drops", "", Shown.GROWN),
        Part(metrics.NET_CARRIER_CHANGES, "link changes", "", Shown.GROWN),
        Part(metrics.OOM_KILLS, "kills for memory", "", Shown.GROWN))),
)  # fmt: skip
OF_A_GPU: tuple[Chart, ...] = (
    Chart("utilization", GPU_CHARTS, (Part(metrics.GPU_UTILIZATION, "utilisation"),)),
    Chart("clock", GPU_CHARTS, (
        Part(metrics.GPU_CLOCK, "{domain}"), Part(metrics.GPU_CLOCK_MAX, "{domain}, most"))),
    Chart("throttle", GPU_CHARTS,
          (Part(metrics.GPU_CLOCK_EVENT_SECONDS, "{reason}", "", Shown.RATE),)),
    Chart("temperature", GPU_CHARTS, (
        Part(metrics.GPU_TEMPERATURE, "{sensor}"),
        Part(metrics.GPU_TEMPERATURE_LIMIT, "limit: {limit}"))),
    Chart("margin", GPU_CHARTS, (Part(metrics.GPU_TEMPERATURE_MARGIN, "margin"),)),
    Chart("power", GPU_CHARTS, (
        Part(metrics.GPU_POWER, "draw"), Part(metrics.GPU_POWER_LIMIT, "limit: {kind}"))),
    Chart("memory", GPU_CHARTS, (
        Part(metrics.GPU_MEMORY_USED, "used"), Part(metrics.GPU_MEMORY_TOTAL, "total"))),
    Chart("ecc", GPU_CHARTS, (
        Part(metrics.GPU_ECC_ERRORS, "{type}", 'counter="volatile"', Shown.GROWN),
        Part(metrics.GPU_XID_ERRORS, "XIDs", "", Shown.GROWN))),
    Chart("pcie", GPU_CHARTS, (
        Part(metrics.GPU_PCIE_WIDTH, "lanes"), Part(metrics.GPU_PCIE_WIDTH_MAX, "lanes, most"),
        Part(metrics.GPU_PCIE_GENERATION, "generation"),
        Part(metrics.GPU_PCIE_GENERATION_MAX, "generation, most"))),
    Chart("replays", GPU_CHARTS, (Part(metrics.GPU_PCIE_REPLAY, "replays", "", Shown.GROWN),)),
    Chart("nvlink", GPU_CHARTS, (Part(metrics.GPU_NVLINK_UP, "up"),)),
    Chart("nvlink_errors", GPU_CHARTS,
          (Part(metrics.GPU_NVLINK_ERRORS, "{kind}", "", Shown.GROWN),)),
)  # fmt: skip

_NODE_METRICS = (metrics.HOST_CPU, metrics.HOST_MEMORY_TOTAL, metrics.HOST_MEMORY_AVAILABLE,
                 metrics.NET_BYTES, metrics.IB_DATA)  # fmt: skip


def wanted(charts: Iterable[Chart]) -> tuple[Metric, ...]:
    """The metrics of some charts."""
    return tuple(dict.fromkeys(part.metric for chart in charts for part in chart.parts))


NODE_METRICS: tuple[Metric, ...] = (*_NODE_METRICS, *wanted(OF_A_NODE))


def of_node(series: Sequence[Series], of_gpus: Sequence[Series], node: str) -> tuple[Lines, ...]:
    """The charts of a node.

    Args:
        series: NODE_METRICS of the node.
        of_gpus: Metrics of OF_GPUS of all nodes.
        node: Its name.
    """
    charts = [_beside_peers(chart, of_gpus, node) for chart in OF_GPUS]
    by = {metric.name: [each for each in series if each.metric == metric.name]
          for metric in _NODE_METRICS}  # fmt: skip
    cpu = _lines("cpu", busy(by[metrics.HOST_CPU.name]), BUSY,
                 f"rate({metrics.HOST_CPU.name}), without idle and iowait")  # fmt: skip
    memory = _lines(
        "memory", used(by[metrics.HOST_MEMORY_TOTAL.name], by[metrics.HOST_MEMORY_AVAILABLE.name]),
        IN_USE, f"1 - {metrics.HOST_MEMORY_AVAILABLE.name} / {metrics.HOST_MEMORY_TOTAL.name}",
    )  # fmt: skip
    disk, errors = (drawn(chart, series) for chart in OF_A_NODE)
    flow = replace(network(series), help=NODE_CHARTS["network"].help)
    return tuple(thin(each) for each in (*charts, cpu, memory, disk, flow, errors))


def of_gpu(series: Sequence[Series]) -> tuple[Lines, ...]:
    """The charts of a GPU, of its own series only; those that nobody told are left out."""
    found = (thin(drawn(chart, series)) for chart in OF_A_GPU)
    return tuple(chart for chart in found if chart.values)


def drawn(chart: Chart, series: Sequence[Series]) -> Lines:
    """A chart of some series; lines of one name are summed."""
    by_line: dict[str, list[Series]] = {}
    for part in chart.parts:
        for each in series:
            if each.metric == part.metric.name and part.label in each.labels:
                name = _named(part.line, each)
                by_line.setdefault(name, []).append(_shown(part.shown)(each))
    times, interval = moments([each for some in by_line.values() for each in some])
    values = {name: summed(panel(some, times, interval)) for name, some in by_line.items()}
    values = {name: line for name, line in values.items() if np.isfinite(line).any()}
    query = ", ".join(dict.fromkeys(part.metric.name for part in chart.parts))
    return lines_of(chart.titles[chart.key], chart.key, times if values else np.zeros(0), values,
                    query=query)  # fmt: skip


def _beside_peers(chart: Chart, series: Sequence[Series], node: str) -> Lines:
    """A line a GPU of the node, and the band of the run's other GPUs."""
    (part,) = chart.parts
    mine: list[Series] = []
    others: list[Series] = []
    for each in series:
        if each.metric == part.metric.name and part.label in each.labels and each.gpu != NOBODY:
            (mine if each.node == node else others).append(each)
    times, interval = moments(mine)
    values: dict[str, Floats] = {}
    for each in sorted(mine, key=lambda one: one.gpu):
        values[f"GPU {each.gpu}"] = each.at(times, interval)
    band = None
    if others and values:
        edges = quantiles(panel(others, times, interval), PEER_QUANTILES)
        values |= dict(zip(PEERS, edges, strict=True))
        band = PEERS
    return lines_of(chart.titles[chart.key], chart.key, times, values, band=band,
                    query=part.metric.name)  # fmt: skip


def _lines(key: str, series: Sequence[Series], line: str, query: str) -> Lines:
    times, interval = moments(series)
    values = {line: series[0].at(times, interval)} if series else {}
    return lines_of(NODE_CHARTS[key], key, times, values, query=query)


def _named(line: str, series: Series) -> str:
    for label, value in series.label.items():
        line = line.replace(f"{{{label}}}", value[:40])
    return line


def _grown(series: Series) -> Series:
    since = np.diff(series.values, prepend=np.nan)
    return replace(series, values=np.where(since >= 0, since, np.nan))


def _shown(shown: Shown) -> Callable[[Series], Series]:
    return {Shown.VALUE: lambda each: each, Shown.RATE: Series.rate, Shown.GROWN: _grown}[shown]
