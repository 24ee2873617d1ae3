"""The emulated device: real arithmetic, then the pace of a device of our choosing.

Ranks outnumber cores on a development machine, so the time of real arithmetic alone is scheduler
noise. Each compute segment does its real work and then waits for the emulated device's deadline;
a device fault lengthens that time (docs/method/emulation.md). Unpaced, a slow device is more real
arithmetic.
"""

import random
from collections.abc import Callable
from time import monotonic, sleep, thread_time
from types import TracebackType
from typing import Self

import torch

SHARES = {"forward": 0.3, "backward": 0.5, "optimizer": 0.2}
"""Device time of a step by segment, each several times the segment's real arithmetic: a segment
that is short of time shows the scheduler instead of the device."""

CPU_HEADROOM = 1.3
"""Device time over CPU time per step and core, so that the deadline and not the CPU decides."""

Weight = Callable[[int], float]
"""Work of the n-th micro-batch of a step over that of an ordinary one."""


def _even(_index: int) -> float:
    return 1.0


def device_seconds(least: float, cpu_seconds: float, world: int, cores: int) -> float:
    """Device time of a step: at least `least`, and 1.3 x ranks x CPU per step / cores."""
    return max(least, CPU_HEADROOM * world * cpu_seconds / cores)


class EmulatedDevice:
    """Paces the compute segments of one rank.

    Args:
        seconds: Device time of a healthy step; None = unpaced.
        noise: Standard deviation of that time from step to step, as a ratio.
        waited: Seconds that the rank has waited for its peers in this step: no device computes
            meanwhile.

    Attributes:
        busy_seconds: Of the step so far.
        added_seconds: By how much a fault has held it up so far. Less than was asked for where the
            arithmetic itself took longer than a healthy device would have.
        cpu_seconds: Of the step so far, by segment.
    """

    def __init__(
        self, seconds: float | None, noise: float, seed: int,
        waited: Callable[[], float] = lambda: 0.0,
    ) -> None:  # fmt: skip
        self.seconds = seconds
        self.busy_seconds = 0.0
        self.added_seconds = 0.0
        self.cpu_seconds: dict[str, float] = dict.fromkeys(SHARES, 0.0)
        self._noise = noise
        self._waited = waited
        self._dice = random.Random(seed)  # noqa: S311 - timing noise, not a secret
        self._scale = 1.0
        self._extra = 0.0
        self._weight: Weight = _even
        self._begun: dict[str, int] = dict.fromkeys(SHARES, 0)
        self._burner = torch.rand(96, 96)
        self._open: _Segment | None = None

    def start_step(
        self, extra_seconds: float, work: float = 1.0, weight: Weight | None = None
    ) -> None:
        """Draw the step's noise; a fault in force adds `extra_seconds` to the step's device time.

        Unpaced, that time is filled with more real arithmetic.

        Args:
            work: The step's work over that of an ordinary one, by design and not by fault.
            weight: The same for the forward and the backward of its n-th micro-batch.
        """
        self._scale = max(0.5, self._dice.gauss(1.0, self._noise)) * work
        self._extra = extra_seconds
        self._weight = weight or _even
        self._begun = dict.fromkeys(SHARES, 0)
        self.busy_seconds = self.added_seconds = 0.0
        self.cpu_seconds = dict.fromkeys(SHARES, 0.0)

    def segment(self, name: str, parts: int = 1) -> "_Segment":
        """A `with` block that takes the device's time for `forward`, `backward`, `optimizer`.

        Args:
            parts: Segments of that name in a step; each takes as long.
        """
        weight = 1.0 if name == "optimizer" else self._weight(self._begun[name])
        self._begun[name] += 1
        return _Segment(self, name, parts, weight)

    def compute(self, seconds: float) -> None:
        """Compute for a time outside the segments, as an evaluation does."""
        if self.seconds is None:
            self._burn(seconds)
        else:
            sleep(seconds)
        self.busy_seconds += seconds

    def reach(self, share: float) -> None:
        """Wait until the device has done a share of the segment in progress."""
        if self.seconds is not None and self._open is not None:
            self._wait(self._open, share, self.seconds)

    def _wait(self, segment: "_Segment", share: float, seconds: float) -> None:
        """Until the device's time for a share of a segment is over."""
        part = share * SHARES[segment.name] / segment.parts
        healthy = segment.began + self._waited() - segment.waited
        healthy += part * seconds * self._scale * segment.weight
        deadline = healthy + part * self._extra
        reached = monotonic()
        while (left := deadline - monotonic()) > 0:
            sleep(left)
        # Without the fault it had come here as much earlier as it was held up so far.
        segment.added = max(reached, deadline) - max(reached - segment.added, healthy)

    def _finish(self, segment: "_Segment") -> None:
        name, share = segment.name, SHARES[segment.name] / segment.parts
        self.cpu_seconds[name] += thread_time() - segment.cpu_began
        waited = self._waited() - segment.waited
        self._open = None
        if self.seconds is not None:
            self._wait(segment, 1.0, self.seconds)
        else:
            segment.added = self._burn(share * self._extra)
        self.added_seconds += segment.added
        self.busy_seconds += monotonic() - segment.began - waited

    def _burn(self, seconds: float) -> float:
        """More real arithmetic, for a time; how long it took."""
        began = now = monotonic()
        while now < began + seconds:
            torch.mm(self._burner, self._burner)
            now = monotonic()
        return now - began


class _Segment:
    __slots__ = ("_device", "added", "began", "cpu_began", "name", "parts", "waited", "weight")

    def __init__(self, device: EmulatedDevice, name: str, parts: int, weight: float) -> None:
        self._device = device
        self.name = name
        self.parts = parts
        self.weight = weight
        self.began = self.waited = self.cpu_began = self.added = 0.0

    def __enter__(self) -> Self:
        self.began = monotonic()
        self.waited = self._device._waited()
        self.cpu_began = thread_time()
        self.added = 0.0
        self._device._open = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._device._finish(self)
