"""Charts of one node and one GPU: which series make which line."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from collector.contract import metrics
from collector.contract.metrics import Metric
from dashboard.shapes import Floats, Lines
from dashboard.sources.archive.hardware import busy, network, summed, used
from dashboard.sources.archive.samples import NOBODY, Series, moments, panel
from dashboard.sources.archive.steps import quantiles
from dashboard.sources.downsample import thin

PEERS = ("peers low", "peers high")
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
    """A chart; its query is the names of its metrics."""

    key: str
    title: str
    unit: str
    parts: tuple[Part, ...]
    help: str


_GPU_UTILIZATION = Chart(
    "utilization", "GPU utilisation", "ratio", (Part(metrics.GPU_UTILIZATION, "utilisation"),),
    "Share of time in which a kernel ran. Low while its peers are high: it waits.",
)  # fmt: skip
_GPU_TEMPERATURE = Chart(
    "temperature", "GPU temperature", "celsius",
    (Part(metrics.GPU_TEMPERATURE, "GPU", 'sensor="gpu"'),),
    "Of the core. What is too hot depends on the model: the limit is drawn on the GPU's page.",
)  # fmt: skip
_GPU_POWER = Chart(
    "power", "GPU power", "W", (Part(metrics.GPU_POWER, "draw"),),
    "Of the board. Below its peers under the same load: capped, or slowed by heat.",
)  # fmt: skip
_GPU_CLOCK = Chart(
    "clock", "SM clock", "Hz", (Part(metrics.GPU_CLOCK, "SM", 'domain="sm"'),),
    "Low under load and below its peers: heat, power, or a fault.",
)  # fmt: skip
OF_GPUS = (_GPU_UTILIZATION, _GPU_TEMPERATURE, _GPU_POWER, _GPU_CLOCK)

OF_A_NODE: tuple[Chart, ...] = (
    Chart("disk", "Disks", "bytes/s", (Part(metrics.DISK_BYTES, "{direction}", "", Shown.RATE),),
          "Read and written, all disks. Reading data or writing checkpoints shows here."),
    Chart("errors", "Errors", "events", (
        Part(metrics.GPU_XID_ERRORS, "XIDs", "", Shown.GROWN),
        Part(metrics.GPU_ECC_ERRORS, "memory errors, {type}", 'counter="volatile"', Shown.GROWN),
        Part(metrics.GPU_PCIE_REPLAY, "PCIe replays", "", Shown.GROWN),
        Part(metrics.GPU_NVLINK_ERRORS, "NVLink errors", "", Shown.GROWN),
        Part(metrics.IB_ERRORS, "InfiniBand errors", "", Shown.GROWN),
        Part(metrics.NET_ERRORS, "network errors", "", Shown.GROWN),
        Part(metrics.NET_DROPS, "network drops", "", Shown.GROWN),
        Part(metrics.NET_CARRIER_CHANGES, "link changes", "", Shown.GROWN),
        Part(metrics.OOM_KILLS, "kills for memory", "", Shown.GROWN)),
          "New ones between two scrapes. A healthy node shows nearly none."),
)  # fmt: skip

OF_A_GPU: tuple[Chart, ...] = (
    _GPU_UTILIZATION,
    Chart("clock", "Clocks", "Hz", (
        Part(metrics.GPU_CLOCK, "{domain}"), Part(metrics.GPU_CLOCK_MAX, "{domain}, most")),
          "Low under load: heat, power, or a fault; the throttle reasons below say which."),
    Chart("throttle", "Throttled, share of time by reason", "ratio",
          (Part(metrics.GPU_CLOCK_EVENT_SECONDS, "{reason}", "", Shown.RATE),),
          "hw_thermal and sw_thermal are heat, sw_power_cap and hw_power_brake power. Above 0.1 it"
          " costs time."),
    Chart("temperature", "Temperature and its limits", "celsius", (
        Part(metrics.GPU_TEMPERATURE, "{sensor}"),
        Part(metrics.GPU_TEMPERATURE_LIMIT, "limit: {limit}")),
          "At the slowdown limit the GPU lowers its clock by itself."),
    Chart("margin", "Margin to the nearest slowdown", "celsius",
          (Part(metrics.GPU_TEMPERATURE_MARGIN, "margin"),), "0 = it slows down."),
    Chart("power", "Power and its limit", "W", (
        Part(metrics.GPU_POWER, "draw"), Part(metrics.GPU_POWER_LIMIT, "limit: {kind}")),
          "At the enforced limit the clock follows the power."),
    Chart("memory", "GPU memory", "bytes", (
        Part(metrics.GPU_MEMORY_USED, "used"), Part(metrics.GPU_MEMORY_TOTAL, "total")),
          "In use of all there is."),
    Chart("ecc", "Memory errors", "events", (
        Part(metrics.GPU_ECC_ERRORS, "{type}", 'counter="volatile"', Shown.GROWN),
        Part(metrics.GPU_XID_ERRORS, "XIDs", "", Shown.GROWN)),
          "New ones between two scrapes. Uncorrected ones end the program; corrected ones are"
          " mended."),
    Chart("pcie", "PCIe link", "lanes", (
        Part(metrics.GPU_PCIE_WIDTH, "lanes"), Part(metrics.GPU_PCIE_WIDTH_MAX, "lanes, most"),
        Part(metrics.GPU_PCIE_GENERATION, "generation"),
        Part(metrics.GPU_PCIE_GENERATION_MAX, "generation, most")),
          "May fall while the GPU is idle. Low under load: reseat the card."),
    Chart("replays", "PCIe replays", "events",
          (Part(metrics.GPU_PCIE_REPLAY, "replays", "", Shown.GROWN),),
          "Packets that were sent again between two scrapes."),
    Chart("nvlink", "NVLinks that are up", "links", (Part(metrics.GPU_NVLINK_UP, "up"),),
          "Fewer than before: a link is gone, and collectives go around it."),
    Chart("nvlink_errors", "NVLink errors", "events",
          (Part(metrics.GPU_NVLINK_ERRORS, "{kind}", "", Shown.GROWN),),
          "New ones between two scrapes."),
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
    cpu = _lines("cpu", "Processors busy", "ratio", busy(by[metrics.HOST_CPU.name]), "busy",
                 f"rate({metrics.HOST_CPU.name}), without idle and iowait",
                 "Near 1, ranks wait for a processor.")  # fmt: skip
    memory = _lines(
        "memory", "Memory of the node in use", "ratio",
        used(by[metrics.HOST_MEMORY_TOTAL.name], by[metrics.HOST_MEMORY_AVAILABLE.name]), "in use",
        f"1 - {metrics.HOST_MEMORY_AVAILABLE.name} / {metrics.HOST_MEMORY_TOTAL.name}",
        "A line that only rises is a leak.",
    )  # fmt: skip
    disk, errors = (drawn(chart, series) for chart in OF_A_NODE)
    flow = replace(network(series), help="All devices. A flat top is a full link.")
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
    return Lines(chart.key, chart.title, chart.unit, times if values else np.zeros(0), values,
                 query=query, help=chart.help)  # fmt: skip


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
    return Lines(chart.key, chart.title, chart.unit, times, values, band=band,
                 query=part.metric.name, help=chart.help)  # fmt: skip


def _lines(
    key: str, title: str, unit: str, series: Sequence[Series], line: str, query: str,
    help: str,  # noqa: A002
) -> Lines:  # fmt: skip
    times, interval = moments(series)
    values = {line: series[0].at(times, interval)} if series else {}
    return Lines(key, title, unit, times, values, query=query, help=help)


def _named(line: str, series: Series) -> str:
    for label, value in series.label.items():
        line = line.replace(f"{{{label}}}", value[:40])
    return line


def _grown(series: Series) -> Series:
    since = np.diff(series.values, prepend=np.nan)
    return replace(series, values=np.where(since >= 0, since, np.nan))


def _shown(shown: Shown) -> Callable[[Series], Series]:
    return {Shown.VALUE: lambda each: each, Shown.RATE: Series.rate, Shown.GROWN: _grown}[shown]
