"""GPUs as a capture of a real machine told them; everything made from it says replay."""

from dataclasses import replace
from pathlib import Path

from lockstep.collector.clock import Clock
from lockstep.collector.gpu_reading import Gpu, GpuReading
from lockstep.collector.reading import SourceError
from lockstep.collector.sources.replay.frames import FILE, Capture, load

__all__ = ["FILE", "Capture", "Replay", "load"]


class Replay:
    """Source of GpuReading: each reading of the capture at its time, the last one for ever.

    Args:
        path: The capture's folder, or None: off.
    """

    name = "replay"

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._began: float | None = None
        self._capture: Capture | None = None

    def available(self) -> bool:
        """Whether a capture was configured."""
        return self._path is not None

    def why_not(self) -> str:
        """What is missing."""
        return "collector.replay, the folder of a capture, is not set"

    def read(self) -> GpuReading:
        """The reading of the capture whose time has come.

        Raises:
            SourceError: The capture cannot be read or is not one.
        """
        if self._path is None:
            raise SourceError("missing", "no capture is configured")
        if self._capture is None:
            self._capture = load(self._path)
        now = self._clock.monotonic()
        if self._began is None:
            self._began = now
        reading = self._capture.at(now - self._began)
        return replace(reading, gpus=tuple(_labelled(gpu) for gpu in reading.gpus))


def _labelled(gpu: Gpu) -> Gpu:
    return gpu if gpu.is_mig else replace(gpu, info={**gpu.info, "simulated": "replay"})
