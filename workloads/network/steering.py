"""Sizes a link fault so that the run's steps take `factor` times as long; pure.

A link has no time of its own, so the factor of a link fault is the wall time of a step during the
fault over before. The knob is the time a bit takes (1 / rate) or the delay of a packet; both
lengthen a step linearly once the link is what the step waits for. The first guess comes from what
a healthy step sends, each further one from what the steps before it did.
"""

from collections.abc import Sequence

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.link import MOST_DELAY, LinkSetting
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.recording import WARMUP_STEPS

FASTEST = 32e9
"""Bits a second that no emulated link reaches."""
SLOWEST = 2e5
WINDOWS = (4, 6, 8)
"""Steps from which each correction is made; the last number stands for all that follow."""
SETTLING_STEPS = 1
TRIM = 0.15
"""Share of the slowest and fastest steps of a window left out: a loaded machine's outliers."""
LEAST_STRENGTH = 0.3
"""Steps of a shape with less in force say too little."""
LARGEST_MOVE = 4.0
LATE_GAIN = 0.5
"""Share of the error that is corrected once the first windows have passed: noise is not chased."""


class Steering:
    """What holds on the link of one fault, step by step.

    Args:
        fault: Of a kind of LINK_KINDS.
    """

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._by_rate = fault.kind is FaultKind.LINK_BANDWIDTH
        self._before: list[float] = []
        self._window: list[float] = []
        self._skip = SETTLING_STEPS
        self._corrections = 0
        self._knob = 0.0
        self._slope = 0.0
        self._wanted = 0.0
        self._last: tuple[float, float] | None = None
        self.healthy_seconds = 0.0

    def observe(self, step: int, seconds: float) -> None:
        """Take the wall time of a completed step into account."""
        fault = self._fault
        if WARMUP_STEPS <= step < fault.from_step:
            self._before.append(seconds)
            return
        strength = fault.strength(step)
        if fault.factor is None or not self._knob or strength < LEAST_STRENGTH:
            return
        if self._skip:
            self._skip -= 1
            return
        self._window.append((seconds - self.healthy_seconds) / strength)
        if len(self._window) >= WINDOWS[min(self._corrections, len(WINDOWS) - 1)]:
            self._correct(middle(self._window))
            self._window.clear()
            self._skip = SETTLING_STEPS

    def begin(self, bits: float, rounds: float) -> None:
        """The fault is about to begin: size it.

        Args:
            bits: What the node sends or gets in a healthy step, whichever is more.
            rounds: Packets of a step that wait for one another, at a guess.
        """
        self.healthy_seconds = middle(self._before) if self._before else 0.0
        if self._fault.factor is None:
            return
        self._wanted = (self._fault.factor - 1.0) * self.healthy_seconds
        self._slope = max(1.0, bits if self._by_rate else rounds)
        self._knob = self._bounded(self._wanted / self._slope)

    def setting(self, step: int) -> LinkSetting:
        """What is to hold while a step runs."""
        fault = self._fault
        strength = fault.strength(step)
        if strength <= 0.0:
            return LinkSetting()
        if fault.link is not None:
            return fault.link.scaled(strength)
        if not self._knob:
            return LinkSetting()
        whole = (
            LinkSetting(rate=1.0 / self._knob) if self._by_rate else LinkSetting(delay=self._knob)
        )
        return whole.scaled(strength)

    def _correct(self, extra: float) -> None:
        """Move the knob after steps that took `extra` seconds longer at full strength."""
        self._slope = self._slope_from(extra)
        gain = LATE_GAIN if self._corrections >= len(WINDOWS) - 1 else 1.0
        self._last = self._knob, extra
        moved = self._knob + gain * (self._wanted - extra) / self._slope
        low, high = self._knob / LARGEST_MOVE, self._knob * LARGEST_MOVE
        self._knob = self._bounded(min(high, max(low, moved)))
        self._corrections += 1

    def _slope_from(self, extra: float) -> float:
        """Seconds a step gets longer by a unit of the knob, as far as the steps tell."""
        through_zero = extra / self._knob
        if self._last is not None and abs(self._knob / self._last[0] - 1.0) > 0.1:
            between = (extra - self._last[1]) / (self._knob - self._last[0])
            least, most = 0.5 * abs(through_zero), 4.0 * max(abs(through_zero), self._slope)
            return min(most, max(least, between, 1.0))
        # A delay's first slope was a guess. What a step sends is known, but part of it may go
        # while the rank computes, so only a longer time than expected corrects it.
        if self._by_rate:
            return max(self._slope, through_zero)
        return max(1.0, through_zero if self._last is None else self._slope)

    def _bounded(self, knob: float) -> float:
        if self._by_rate:
            return min(1.0 / SLOWEST, max(1.0 / FASTEST, knob))
        return min(MOST_DELAY, max(1e-6, knob))


def middle(values: Sequence[float]) -> float:
    """Mean without the extremes."""
    ordered = sorted(values)
    cut = int(TRIM * len(ordered))
    kept = ordered[cut : len(ordered) - cut]
    return sum(kept) / len(kept)
