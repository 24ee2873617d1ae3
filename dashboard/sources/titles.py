"""Title, unit and help of each chart of a live source, by its key."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dashboard.shapes import Floats, Lines


@dataclass(frozen=True, slots=True)
class Title:
    """What a chart is called."""

    title: str
    unit: str
    help: str
    stacked: bool = False


RUN_CHARTS: Mapping[str, Title] = {
    "loss": Title("Loss", "nats", "Training loss; it should fall. A jump is worth a look at the"
                  " events of that moment."),
    "throughput": Title("Throughput", "tokens/s", "What the whole run trains on each second. It"
                        " falls as the step time rises."),
    "step": Title("Step time", "s", "Wall time of a step: 5 %, 50 % and 95 % over ranks; slowest ="
                  " the slowest moment. All ranks wait for each other, so the lines lie together."),
    "mfu": Title("Model FLOPs utilisation", "ratio", "Model FLOPs over what the hardware could do;"
                 " needs the peak of the device, which only archives tell."),
    "phases": Title("Shares of the step", "ratio", "Where a step goes, mean over ranks. A straggler"
                    " shows as a larger share of gradient synchronisation at all others.", True),
    "gpu": Title("GPU utilisation", "ratio", "Share of time with a kernel running: 5 %, 50 % and"
                 " 95 % over the run's GPUs."),
    "cpu": Title("CPU use of the nodes", "ratio", "Share of the nodes' processors that is busy."),
    "memory": Title("Memory use of the nodes", "ratio", "Share of the nodes' memory in use."),
    "network": Title("Network of the nodes", "bytes/s", "Sum over the run's nodes."),
}  # fmt: skip
NODE_CHARTS: Mapping[str, Title] = {
    "utilization": Title("GPU utilisation", "ratio", "One line a GPU, and the band in which 90 % of"
                         " the run's other GPUs are."),
    "temperature": Title("GPU temperature", "celsius", "Above the band: cooling, or more work than"
                         " the others."),
    "power": Title("GPU power", "W", "Below the band under load: a cap, heat, or less work."),
    "clock": Title("SM clock", "Hz", "Below the band under load: heat, power or a fault."),
    "cpu": Title("CPU use", "ratio", "Share of the node's processors that is busy."),
    "memory": Title("Memory use", "ratio", "Share of the node's memory in use."),
    "disk": Title("Disk", "bytes/s", "Sum over the node's disks."),
    "network": Title("Network", "bytes/s", "Sum over the node's devices."),
    "errors": Title("Errors", "events/s", "Of network devices, XIDs and uncorrected memory errors;"
                    " 0 is normal."),
}  # fmt: skip
GPU_CHARTS: Mapping[str, Title] = {
    "utilization": Title("Utilisation", "ratio", "Share of time with a kernel running."),
    "clock": Title("Clocks", "Hz", "Low under load: see the throttle reasons."),
    "throttle": Title("Time throttled, by reason", "ratio", "Share of time in which the clock was"
                      " held down; hw_thermal and hw_slowdown mean heat, power caps are ordinary."),
    "temperature": Title("Temperature", "celsius", "Of the core and of the memory."),
    "margin": Title("Temperature margin", "celsius", "Distance to the nearest slowdown; 0 = it"
                    " throttles."),
    "power": Title("Power", "W", "Draw of the board and its limit."),
    "memory": Title("Memory in use", "bytes", "Of the GPU's memory."),
    "ecc": Title("Memory errors", "events/s", "Corrected errors are ordinary in small numbers,"
                 " uncorrected ones are not."),
    "pcie": Title("PCIe", "bytes/s", "Traffic in both directions."),
    "replay": Title("PCIe replays", "events/s", "Packets sent again; above 0 the link is bad."),
    "nvlink": Title("NVLink", "bytes/s", "Traffic in both directions."),
    "nvlink_errors": Title("NVLink errors", "events/s", "0 is normal."),
}  # fmt: skip


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
