"""Title, unit, help and lines of each chart, by its key: the same from every source."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dashboard.shapes import Floats, Lines

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


@dataclass(frozen=True, slots=True)
class Title:
    """What a chart is called.

    Attributes:
        unit: Of shapes.Lines, where the source has nothing better.
    """

    title: str
    unit: str
    help: str
    stacked: bool = False


RUN_CHARTS: Mapping[str, Title] = {
    "loss": Title("Training loss", "nats", "Falls while the model learns. A jump up, or no value"
                  " (NaN), is a matter of the model or its data; a slow node does not change it."),
    "throughput": Title("Throughput of the run", "tokens/s", "What the run gets done. It falls with"
                        " every longer step: look for the event or the rank at the same moment."),
    "step": Title("Step time", "s", "All ranks wait for each other, so their steps take alike; the"
                  " band is wide where one rank is measured late or stands outside the"
                  " collectives."),
    "mfu": Title("Model FLOPs of a rank", "FLOP/s", "By Megatron's formula. No peak of this device"
                 " is known, so there is no share."),
    "phases": Title("Where a step goes", "ratio", "Shares of a step. grad_sync is waiting for the"
                    " others and the network: it grows on everybody but the one who is late.",
                    True),
    "gpu": Title("GPU utilisation", "ratio", "Share of time in which a kernel ran: lowest, median"
                 " and highest GPU of the run. One GPU that is low while the others are high waits,"
                 " or nothing runs on it."),
    "cpu": Title("Processors busy", "ratio", "Of each node: lowest, median and highest. Near 1,"
                 " ranks wait for a processor."),
    "memory": Title("Memory of the nodes in use", "ratio", "Of each node: lowest, median and"
                    " highest. A line that only rises is a leak."),
    "network": Title("Network", "bytes/s", "All devices of all nodes together. It rises and falls"
                     " with the steps; a flat top is a full link."),
}  # fmt: skip
NODE_CHARTS: Mapping[str, Title] = {
    "utilization": Title("GPU utilisation", "ratio", "Share of time in which a kernel ran. Low"
                         " while its peers are high: it waits."),
    "temperature": Title("GPU temperature", "celsius", "Of the core. What is too hot depends on the"
                         " model: the limit is drawn on the GPU's page."),
    "power": Title("GPU power", "W", "Of the board. Below its peers under the same load: capped, or"
                   " slowed by heat."),
    "clock": Title("SM clock", "Hz", "Low under load and below its peers: heat, power, or a"
                   " fault."),
    "cpu": Title("Processors busy", "ratio", "Near 1, ranks wait for a processor."),
    "memory": Title("Memory of the node in use", "ratio", "A line that only rises is a leak."),
    "disk": Title("Disks", "bytes/s", "Read and written, all disks. Reading data or writing"
                  " checkpoints shows here."),
    "network": Title("Network", "bytes/s", "All devices. A flat top is a full link."),
    "errors": Title("Errors", "events", "New ones between two points. A healthy node shows nearly"
                    " none."),
}  # fmt: skip
GPU_CHARTS: Mapping[str, Title] = {
    "utilization": NODE_CHARTS["utilization"],
    "clock": Title("Clocks", "Hz", "Low under load: heat, power, or a fault; the throttle reasons"
                   " below say which."),
    "throttle": Title("Throttled, share of time by reason", "ratio", "hw_thermal and sw_thermal are"
                      " heat, sw_power_cap and hw_power_brake power. Above 0.1 it costs time."),
    "temperature": Title("Temperature and its limits", "celsius", "At the slowdown limit the GPU"
                         " lowers its clock by itself."),
    "margin": Title("Margin to the nearest slowdown", "celsius", "0 = it slows down."),
    "power": Title("Power and its limit", "W", "At the enforced limit the clock follows the"
                   " power."),
    "memory": Title("GPU memory", "bytes", "In use of all there is."),
    "ecc": Title("Memory errors", "events", "New ones between two points. Uncorrected ones end the"
                 " program; corrected ones are mended."),
    "pcie": Title("PCIe link", "lanes", "May fall while the GPU is idle. Low under load: reseat the"
                  " card."),
    "pcie_traffic": Title("PCIe traffic", "bytes/s", "In both directions."),
    "replays": Title("PCIe replays", "events", "Packets that were sent again between two points."),
    "nvlink": Title("NVLinks that are up", "links", "Fewer than before: a link is gone, and"
                    " collectives go around it."),
    "nvlink_traffic": Title("NVLink traffic", "bytes/s", "In both directions."),
    "nvlink_errors": Title("NVLink errors", "events", "New ones between two points."),
}  # fmt: skip


def share_of_peak(chart: Lines, words: str) -> Lines:
    """The chart `mfu` where the peak of the device is known.

    Args:
        chart: Its values are shares of the peak already.
        words: What such a share is called (workloads.outcome.peak.Peak.words).
    """
    return replace(
        chart, title=words[:1].upper() + words[1:], unit="ratio",
        help="Model FLOPs (Megatron's formula) of a rank over the most its device can do. It falls"
        " with every longer step.",
    )  # fmt: skip


def lines(
    title: Title,
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
    told = {name: line for name, line in values.items() if np.isfinite(line).any()}
    whole = band if band is not None and set(band) <= told.keys() else None
    return Lines(
        key=key, title=title.title, unit=unit or title.unit, times=times, values=told, steps=steps,
        band=whole, stacked=title.stacked, sampling=sampling, query=query, help=title.help,
    )  # fmt: skip
