"""Every chart, by its key: title, unit, help, and of which series its lines are made.

The table has two interpreters, `archive/charts.py` for samples and `prometheus/charts.py` for
PromQL. A chart without rows is arithmetic over several metrics, or of steps, which each source does
its own way.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Metric
from lockstep.dashboard.shapes import Floats, Lines

MEAN, ALL, SLOWEST = "mean over ranks", "all ranks", "slowest rank"
LOWEST, MEDIAN, HIGHEST = "lowest", "median", "highest"
QUANTILES = {"p5": 0.05, MEDIAN: 0.5, "p95": 0.95}
BUSY, IN_USE = "busy", "in use"
PEERS = ("peers low", "peers high")
BANDS: Mapping[str, tuple[str, str]] = {
    "step": ("p5", "p95"), "gpu": (LOWEST, HIGHEST), "cpu": (LOWEST, HIGHEST),
    "memory": (LOWEST, HIGHEST),
}  # fmt: skip
"""Of the charts of a run."""
LONGEST = 40
"""Letters of a label in the name of a line."""


class Over(StrEnum):
    """What of the samples between two points of a line is told, so that no sign of trouble is lost.

    The words of gauges are those of PromQL's `<word>_over_time`.
    """

    MEAN = "avg"
    LOWEST = "min"
    HIGHEST = "max"
    RATE = "rate"
    """Per second, of a counter."""
    GROWN = "grown"
    """By how much a counter grew."""


@dataclass(frozen=True, slots=True)
class Row:
    """Series that make one line of a chart, or one a value of a label.

    Attributes:
        line: Its name; `{label}` stands for the label's value.
        over: Of several samples.
        equal: Labels that the series have.
        across: Of several series of one line; empty = sum of counters, and the highest gauge: a
            GPU with MIG devices has several.
    """

    line: str
    metric: Metric
    over: Over = Over.HIGHEST
    equal: Mapping[str, str] = field(default_factory=dict)
    across: str = ""

    @property
    def by(self) -> str:
        """The label in the name of the line; empty = there is one line."""
        placeholder = re.search(r"{(\w+)}", self.line)
        return placeholder[1] if placeholder else ""

    @property
    def summed(self) -> bool:
        """Whether several series of one line are added; else the highest counts."""
        return (self.across or ("sum" if self.over in (Over.RATE, Over.GROWN) else "max")) == "sum"

    def named(self, labels: Mapping[str, str]) -> str:
        """The line to which a series with these labels belongs."""
        return self.line.replace(f"{{{self.by}}}", labels.get(self.by, "")[:LONGEST])


@dataclass(frozen=True, slots=True)
class Chart:
    """What a chart is called, and what it shows.

    Attributes:
        unit: Of shapes.Lines, where the source has nothing better.
        rows: Its lines, in their order.
    """

    title: str
    unit: str
    help: str
    rows: tuple[Row, ...] = ()
    stacked: bool = False


def _counted(line: str, metric: Metric, **equal: str) -> Row:
    return Row(line, metric, Over.GROWN, equal)


RUN_CHARTS: Mapping[str, Chart] = {
    "loss": Chart("Training loss", "nats", "Falls while the model learns. A jump up, or no value"
                  " (NaN), is a matter of the model or its data; a slow node does not change it."),
    "throughput": Chart("Throughput of the run", "tokens/s", "What the run gets done. It falls with"
                        " every longer step: look for the event or the rank at the same moment."),
    "step": Chart("Step time", "s", "All ranks wait for each other, so their steps take alike; the"
                  " band is wide where one rank is measured late or stands outside the"
                  " collectives."),
    "mfu": Chart("Model FLOPs of a rank", "FLOP/s", "By Megatron's formula. No peak of this device"
                 " is known, so there is no share."),
    "phases": Chart("Where a step goes", "ratio", "Shares of a step. grad_sync is waiting for the"
                    " others and the network: it grows on everybody but the one who is late.",
                    stacked=True),
    "gpu": Chart("GPU utilisation", "ratio", "Share of time in which a kernel ran: lowest, median"
                 " and highest GPU of the run. One GPU that is low while the others are high waits,"
                 " or nothing runs on it."),
    "cpu": Chart("Processors busy", "ratio", "Of each node: lowest, median and highest. Near 1,"
                 " ranks wait for a processor."),
    "memory": Chart("Memory of the nodes in use", "ratio", "Of each node: lowest, median and"
                    " highest. A line that only rises is a leak."),
    "network": Chart("Network", "bytes/s", "All devices of all nodes together. It rises and falls"
                     " with the steps; a flat top is a full link."),
}  # fmt: skip
OWN_CHARTS_AT_MOST = 8
"""As many names as a rank may log."""


def own_key(name: str) -> str:
    """Key of the chart of a value that the program logs itself."""
    return f"own:{name}"


def own_chart(name: str) -> Chart:
    """Of a value that the program logs itself; what it means only the program knows."""
    return Chart(f"{name} (own)", "", f"{name}, as the program logs it: recorder.log({name}=...)."
                 " The last value at each scrape; the band reaches from the lowest to the highest"
                 " rank.")  # fmt: skip


NODE_CHARTS: Mapping[str, Chart] = {
    "utilization": Chart("GPU utilisation", "ratio", "Share of time in which a kernel ran. Low"
                         " while its peers are high: it waits.",
        (Row("GPU {gpu}", m.GPU_UTILIZATION, Over.MEAN),)),
    "temperature": Chart("GPU temperature", "celsius", "Of the core. What is too hot depends on the"
                         " model: the limit is drawn on the GPU's page.",
        (Row("GPU {gpu}", m.GPU_TEMPERATURE, equal={"sensor": "gpu"}),)),
    "power": Chart("GPU power", "W", "Of the board. Below its peers under the same load: capped, or"
                   " slowed by heat.", (Row("GPU {gpu}", m.GPU_POWER),)),
    "clock": Chart("SM clock", "Hz", "Low under load and below its peers: heat, power, or a"
                   " fault.", (Row("GPU {gpu}", m.GPU_CLOCK, Over.LOWEST, {"domain": "sm"}),)),
    "cpu": Chart("Processors busy", "ratio", "Near 1, ranks wait for a processor."),
    "memory": Chart("Memory of the node in use", "ratio", "A line that only rises is a leak."),
    "disk": Chart("Disks", "bytes/s", "Read and written, all disks. Reading data or writing"
                  " checkpoints shows here.", (Row("{direction}", m.DISK_BYTES, Over.RATE),)),
    "network": Chart("Network", "bytes/s", "All devices. A flat top is a full link."),
    "errors": Chart("Errors", "events", "New ones between two points. A healthy node shows nearly"
                    " none.", (
        _counted("XIDs", m.GPU_XID_ERRORS),
        _counted("memory errors, {type}", m.GPU_ECC_ERRORS, counter="volatile"),
        _counted("PCIe replays", m.GPU_PCIE_REPLAY), _counted("NVLink errors", m.GPU_NVLINK_ERRORS),
        _counted("InfiniBand errors", m.IB_ERRORS), _counted("network errors", m.NET_ERRORS),
        _counted("network drops", m.NET_DROPS), _counted("link changes", m.NET_CARRIER_CHANGES),
        _counted("kills for memory", m.OOM_KILLS))),
}  # fmt: skip
GPU_CHARTS: Mapping[str, Chart] = {
    "utilization": replace(NODE_CHARTS["utilization"], rows=(
        Row("utilisation", m.GPU_UTILIZATION, Over.MEAN), Row("SM", m.GPU_SM_ACTIVE, Over.MEAN),
        Row("tensor", m.GPU_TENSOR_ACTIVE, Over.MEAN),
        Row("memory", m.GPU_DRAM_ACTIVE, Over.MEAN))),
    "clock": Chart("Clocks", "Hz", "Low under load: heat, power, or a fault; the throttle reasons"
                   " below say which.", (
        Row("{domain}", m.GPU_CLOCK, Over.LOWEST), Row("{domain}, most", m.GPU_CLOCK_MAX))),
    "throttle": Chart("Throttled, share of time by reason", "ratio", "hw_thermal and sw_thermal are"
                      " heat, sw_power_cap and hw_power_brake power. Above 0.1 it costs time.",
        (Row("{reason}", m.GPU_CLOCK_EVENT_SECONDS, Over.RATE),)),
    "temperature": Chart("Temperature and its limits", "celsius", "At the slowdown limit the GPU"
                         " lowers its clock by itself.", (
        Row("{sensor}", m.GPU_TEMPERATURE), Row("limit: {limit}", m.GPU_TEMPERATURE_LIMIT))),
    "margin": Chart("Margin to the nearest slowdown", "celsius", "0 = it slows down.",
        (Row("margin", m.GPU_TEMPERATURE_MARGIN, Over.LOWEST),)),
    "power": Chart("Power and its limit", "W", "At the enforced limit the clock follows the"
                   " power.", (
        Row("draw", m.GPU_POWER), Row("limit: {kind}", m.GPU_POWER_LIMIT, Over.LOWEST))),
    "memory": Chart("GPU memory", "bytes", "In use of all there is.", (
        Row("used", m.GPU_MEMORY_USED), Row("total", m.GPU_MEMORY_TOTAL))),
    "ecc": Chart("Memory errors", "events", "New ones between two points. Uncorrected ones end the"
                 " program; corrected ones are mended.", (
        _counted("{type}", m.GPU_ECC_ERRORS, counter="volatile"),
        _counted("XIDs", m.GPU_XID_ERRORS))),
    "pcie": Chart("PCIe link", "lanes", "May fall while the GPU is idle. Low under load: reseat the"
                  " card.", (
        Row("lanes", m.GPU_PCIE_WIDTH, Over.LOWEST), Row("lanes, most", m.GPU_PCIE_WIDTH_MAX),
        Row("generation", m.GPU_PCIE_GENERATION, Over.LOWEST),
        Row("generation, most", m.GPU_PCIE_GENERATION_MAX))),
    "pcie_traffic": Chart("PCIe traffic", "bytes/s", "In both directions.",
        (Row("{direction}", m.GPU_PCIE_BYTES, Over.RATE),)),
    "replays": Chart("PCIe replays", "events", "Packets that were sent again between two points.",
        (_counted("replays", m.GPU_PCIE_REPLAY),)),
    "nvlink": Chart("NVLinks that are up", "links", "Fewer than before: a link is gone, and"
                    " collectives go around it.",
        (Row("up", m.GPU_NVLINK_UP, Over.LOWEST, across="sum"),)),
    "nvlink_traffic": Chart("NVLink traffic", "bytes/s", "In both directions.",
        (Row("{direction}", m.GPU_NVLINK_BYTES, Over.RATE),)),
    "nvlink_errors": Chart("NVLink errors", "events", "New ones between two points.",
        (_counted("{kind}", m.GPU_NVLINK_ERRORS),)),
}  # fmt: skip
BESIDE_PEERS = ("utilization", "temperature", "power", "clock")
"""Charts of a node with a line a GPU and the band of the GPUs of other nodes."""
FLEET_ROWS: Mapping[str, tuple[Row, ...]] = {
    **{key: NODE_CHARTS[key].rows for key in BESIDE_PEERS},
    "errors": (
        _counted("XIDs", m.GPU_XID_ERRORS),
        _counted("uncorrected", m.GPU_ECC_ERRORS, type="uncorrected", counter="volatile"),
        _counted("fallen", m.GPU_FALLEN)),
}  # fmt: skip
"""What shapes.FLEET_METRICS show of a GPU, all rows added; the others are of ranks."""


def share_of_peak(chart: Lines, words: str) -> Lines:
    """The chart `mfu` where the peak of the device is known.

    Args:
        chart: Its values are shares of the peak already.
        words: What such a share is called (lockstep.workloads.measure.peak.Peak.words).
    """
    return replace(
        chart, title=words[:1].upper() + words[1:], unit="ratio",
        help="Model FLOPs (Megatron's formula) of a rank over the most its device can do. It falls"
        " with every longer step.",
    )  # fmt: skip


def lines(
    chart: Chart,
    key: str,
    times: Floats,
    values: Mapping[str, Floats],
    *,
    band: tuple[str, str] | None = None,
    steps: Floats | None = None,
    sampling: str = "",
    query: str = "",
    unit: str = "",
) -> Lines:
    """A chart; lines of which nothing is known are left out, with the band they belong to."""
    known = {name: line for name, line in values.items() if np.isfinite(line).any()}
    whole = band if band is not None and set(band) <= known.keys() else None
    return Lines(
        key=key, title=chart.title, unit=unit or chart.unit, times=times, values=known, steps=steps,
        band=whole, stacked=chart.stacked, sampling=sampling, query=query, help=chart.help,
    )  # fmt: skip
