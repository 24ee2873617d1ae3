"""Records what this machine's GPUs tell, for tests: a folder that the `replay` source plays."""

import platform
import re
from pathlib import Path

from lockstep.collector.clock import Clock
from lockstep.collector.config import Config
from lockstep.collector.readings.gpu import Gpu, GpuReading
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.gpu.nvml.source import Nvml
from lockstep.collector.sources.gpu.replay import FILE, lines

READINGS, PERIOD_SECONDS = 5, 1.0


def capture(folder: Path, config: Config, clock: Clock) -> Path:
    """Read this machine's GPUs for a few seconds and write a capture below the folder.

    Serial numbers and uuids are replaced by numbers: a capture is meant to be shared.

    Returns:
        The capture's own folder, `<os>__<gpu>__<driver>`.

    Raises:
        SourceError: There is no GPU to read.
        OSError: The folder cannot be written.
    """
    source = Nvml(config.proc, config.sys, clock, slow_period=2 * PERIOD_SECONDS)
    try:
        began = clock.monotonic()
        readings: list[tuple[float, GpuReading]] = []
        for _ in range(READINGS):
            reading = source.read()
            readings.append((clock.monotonic() - began, _anonymous(reading)))
            clock.sleep(PERIOD_SECONDS)
    finally:
        source.close()
    # One that is lost tells nothing of itself, and a capture of it is worth having.
    info = next((gpu.info for gpu in readings[-1][1].gpus if "model" in gpu.info), None)
    if info is None:
        raise SourceError("no_gpu", "NVML knows no GPU on this machine that reports its name")
    words = (_os(), info["model"], info.get("driver", ""))
    name = "__".join(re.sub(r"[^a-z0-9.]+", "-", word.lower()).strip("-") for word in words)
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    origin = f"captured on hardware: {info.get('model')}, driver {info.get('driver')}, {_os()}"
    # The first reading may come before every GPU has answered, and has no activity yet.
    (target / FILE).write_text("\n".join(lines(origin, readings[1:])) + "\n")
    return target


def _anonymous(reading: GpuReading) -> GpuReading:
    names: dict[str, str] = {}
    for gpu in reading.gpus:
        kind = "MIG" if gpu.is_mig else "GPU"
        names.setdefault(gpu.uuid, f"{kind}-{len(names)}")
    gpus = (
        Gpu(gpu.index, names[gpu.uuid], gpu.up, gpu.stalled, _public(gpu, names), gpu.values)
        for gpu in reading.gpus
    )
    return GpuReading(tuple(gpus), expected=reading.expected, present=reading.present)


def _public(gpu: Gpu, names: dict[str, str]) -> dict[str, str]:
    info = {label: text for label, text in gpu.info.items() if label != "serial"}
    if "parent" in info:
        info["parent"] = names.get(info["parent"], "")
    return info


def _os() -> str:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return platform.system()
    return f"{release.get('ID', 'linux')}-{release.get('VERSION_ID', '')}"
