"""Heat, power and clocks of the simulated GPU.

First-order physics, enough to be consistent in sign, order and size: temperature follows power
with one time constant, a thermal limit or a power cap lowers the SM clock by the factor by which
the emulated device really slows, and the matching clock-event counter runs for as long as that
lasts.
"""

import math

from collector.contract.words import CLOCK_EVENT_REASONS, FaultKind
from workloads.simulated_gpu.nominal import (
    CLOCK_MAX_HERTZ,
    HEALTHY_CELSIUS,
    OVERHEATED_CELSIUS,
    POWER_CAPPED_WATTS,
    POWER_IDLE_WATTS,
    POWER_LIMIT_WATTS,
    SLOWDOWN_CELSIUS,
    THERMAL_SECONDS,
)
from workloads.simulated_gpu.trouble import Trouble

_REASONS: dict[FaultKind, str] = {
    FaultKind.THERMAL: "hw_thermal",
    FaultKind.POWER: "sw_power_cap",
}
_UTILIZATION_SECONDS = 0.5


class Clocks:
    """What the GPU draws, how hot it is, and how fast it runs.

    Args:
        ambient: By how much this part is warmer than another.
    """

    def __init__(self, ambient: float) -> None:
        self._healthy = HEALTHY_CELSIUS + ambient
        self.temperature = self._healthy
        self.clock = CLOCK_MAX_HERTZ
        self.power = POWER_IDLE_WATTS
        self.power_limit = POWER_LIMIT_WATTS
        self.energy = 0.0
        self.utilization = 0.0
        self.throttled = dict.fromkeys(CLOCK_EVENT_REASONS, 0.0)
        self.reasons: list[str] = []

    def advance(self, seconds: float, busy: float, trouble: Trouble) -> None:
        """Live through one step, of which the device computed a share."""
        self.reasons = [reason for kind, reason in _REASONS.items() if kind in trouble.kinds]
        capped = FaultKind.POWER in trouble.kinds
        self.power_limit = POWER_CAPPED_WATTS if capped else POWER_LIMIT_WATTS
        self.clock = CLOCK_MAX_HERTZ / (trouble.factor if self.reasons else 1.0)
        self.utilization = _follow(self.utilization, busy, seconds, _UTILIZATION_SECONDS)
        full = POWER_LIMIT_WATTS * 0.93 * (self.clock / CLOCK_MAX_HERTZ)
        drawn = min(POWER_IDLE_WATTS + busy * (full - POWER_IDLE_WATTS), self.power_limit)
        # A capped part stays at its cap: that is what makes it slow.
        self.power = self.power_limit * 0.995 if capped else drawn
        target = OVERHEATED_CELSIUS if trouble.heating else self._healthy
        self.temperature = _follow(self.temperature, target, seconds, THERMAL_SECONDS)
        if FaultKind.THERMAL in trouble.kinds:
            self.temperature = max(self.temperature, SLOWDOWN_CELSIUS)
        self.energy += self.power * seconds
        for reason in self.reasons:
            self.throttled[reason] += seconds * busy


def _follow(value: float, target: float, seconds: float, constant: float) -> float:
    """First-order lag."""
    return target + (value - target) * math.exp(-seconds / constant)
