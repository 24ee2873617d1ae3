"""The emulated device: real arithmetic, then the pace of a device of our choosing.

Ranks outnumber cores on a development machine, so the time of real arithmetic alone is scheduler
noise. Each compute segment does its real work and then waits for the emulated device's deadline;
a device fault lengthens that time (DESIGN 3.2). Unpaced, a slow device is more real arithmetic.
"""

import random
from time import monotonic, sleep, thread_time
from types import TracebackType
from typing import Self

import torch

SHARES = {"forward": 0.3, "backward": 0.5, "optimizer": 0.2}
"""Device time of a step by segment, each several times the segment's real arithmetic: a segment
that is short of time shows the scheduler instead of the device."""

CPU_HEADROOM = 1.3
"""Device time over CPU time per step and core, so that the deadline and not the CPU decides."""


def device_seconds(least: float, cpu_seconds: float, world: int, cores: int) -> float:
    """Device time of a step: at least `least`, and 1.3 x ranks x CPU per step / cores."""
    return max(least, CPU_HEADROOM * world * cpu_seconds / cores)


class EmulatedDevice:
    """Paces the compute segments of one rank.

    Args:
        seconds: Device time of a healthy step; None = unpaced.
        noise: Standard deviation of that time from step to step, as a ratio.
    """

    def __init__(self, seconds: float | None, noise: float, seed: int) -> None:
        self.seconds = seconds
        self.busy_seconds = 0.0
        self.cpu_seconds: dict[str, float] = dict.fromkeys(SHARES, 0.0)
        self._noise = noise
        self._dice = random.Random(seed)  # noqa: S311 - timing noise, not a secret
        self._scale = 1.0
        self._extra = 0.0
        self._burner = torch.rand(96, 96)

    def start_step(self, extra_seconds: float) -> None:
        """Draw the step's noise; a fault in force adds `extra_seconds` to the step's device time.

        Unpaced, that time is filled with more real arithmetic.
        """
        self._scale = max(0.5, self._dice.gauss(1.0, self._noise))
        self._extra = extra_seconds
        self.busy_seconds = 0.0

    def segment(self, name: str) -> "_Segment":
        """A `with` block that takes the device's time for `forward`, `backward`, `optimizer`."""
        return _Segment(self, name)

    def _finish(self, name: str, began: float, cpu_began: float) -> None:
        cpu = thread_time() - cpu_began
        self.cpu_seconds[name] = cpu
        if self.seconds is not None:
            share = SHARES[name]
            deadline = began + share * (self.seconds * self._scale + self._extra)
            while (left := deadline - monotonic()) > 0:
                sleep(left)
        else:
            self._burn(SHARES[name] * self._extra)
        self.busy_seconds += monotonic() - began

    def _burn(self, seconds: float) -> None:
        """More real arithmetic, for a time."""
        until = monotonic() + seconds
        while monotonic() < until:
            torch.mm(self._burner, self._burner)


class _Segment:
    __slots__ = ("_began", "_cpu_began", "_device", "_name")

    def __init__(self, device: EmulatedDevice, name: str) -> None:
        self._device = device
        self._name = name
        self._began = 0.0
        self._cpu_began = 0.0

    def __enter__(self) -> Self:
        self._began = monotonic()
        self._cpu_began = thread_time()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._device._finish(self._name, self._began, self._cpu_began)
