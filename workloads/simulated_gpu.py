"""The simulated GPU that belongs to an emulated device: it tells what a real one would tell.

First-order physics, enough to be consistent in sign, order and size: temperature follows power
with one time constant, a thermal limit or a power cap lowers the SM clock by the factor by which
the emulated device really slows, and the matching clock-event counter runs for as long as that
lasts. Nominal values are those of an H100 SXM data sheet (700 W, 1,980 MHz).
"""

import json
import math
import os
import random
from pathlib import Path
from time import monotonic_ns

from collector.contract.device import DeviceState
from collector.contract.words import CLOCK_EVENT_REASONS, FaultKind

MODEL = "Lockstep simulated GPU"
CLOCK_MAX_HERTZ = 1.980e9
POWER_LIMIT_WATTS = 700.0
POWER_IDLE_WATTS = 110.0
POWER_CAPPED_WATTS = 400.0
SLOWDOWN_CELSIUS = 90.0
SHUTDOWN_CELSIUS = 95.0
HEALTHY_CELSIUS = 64.0
OVERHEATED_CELSIUS = 93.0
MEMORY_BYTES = 80 * 2**30
THERMAL_SECONDS = 0.8
"""Time constant of the temperature; short, because the runs are."""
HEATING_LEAD_SECONDS = 1.8
"""Cooling fails this long before the clock falls: temperature first, then the clock."""

_REASONS: dict[FaultKind, str] = {
    FaultKind.THERMAL: "hw_thermal",
    FaultKind.POWER: "sw_power_cap",
}


class SimulatedGpu:
    """State of one simulated GPU, advanced once a step by the rank that drives the device."""

    def __init__(self, gpu: int, uuid: str, seed: int) -> None:
        dice = random.Random(seed)  # noqa: S311 - natural spread between parts, not a secret
        self.gpu = gpu
        self.uuid = uuid
        self._ambient = dice.gauss(0.0, 1.0)
        self._temperature = HEALTHY_CELSIUS + self._ambient
        self._clock = CLOCK_MAX_HERTZ
        self._power = POWER_IDLE_WATTS
        self._power_limit = POWER_LIMIT_WATTS
        self._energy = 0.0
        self._utilization = 0.0
        self._throttled = dict.fromkeys(CLOCK_EVENT_REASONS, 0.0)
        self._reason: str | None = None

    def advance(
        self, seconds: float, busy: float, fault: FaultKind | None, factor: float, heating: bool
    ) -> None:
        """Live through one step.

        Args:
            seconds: Wall time of the step.
            busy: Share of it in which the device computed, 0 to 1.
            fault: The fault that slows the device now, if it is one that the GPU can tell.
            factor: By how much the device is slower now, >= 1.
            heating: Cooling has failed, whether or not the clock has fallen yet.
        """
        reason = _REASONS.get(fault) if fault is not None else None
        capped = fault is FaultKind.POWER
        self._power_limit = POWER_CAPPED_WATTS if capped else POWER_LIMIT_WATTS
        self._clock = CLOCK_MAX_HERTZ / (factor if reason else 1.0)
        self._utilization = _follow(self._utilization, busy, seconds, 0.5)
        full = POWER_LIMIT_WATTS * 0.93 * (self._clock / CLOCK_MAX_HERTZ)
        drawn = min(POWER_IDLE_WATTS + busy * (full - POWER_IDLE_WATTS), self._power_limit)
        # A capped part stays at its cap: that is what makes it slow.
        self._power = self._power_limit * 0.995 if capped else drawn
        target = OVERHEATED_CELSIUS if heating else HEALTHY_CELSIUS + self._ambient
        self._temperature = _follow(self._temperature, target, seconds, THERMAL_SECONDS)
        if reason == "hw_thermal":
            self._temperature = max(self._temperature, SLOWDOWN_CELSIUS)
        self._energy += self._power * seconds
        self._reason = reason
        if reason:
            self._throttled[reason] += seconds * busy

    def state(self) -> DeviceState:
        """What it tells now."""
        return DeviceState(
            gpu=self.gpu,
            uuid=self.uuid,
            model=MODEL,
            driver="simulated",
            time_ns=monotonic_ns(),
            pid=os.getpid(),
            utilization_ratio=round(self._utilization, 4),
            memory_used_bytes=0.62 * MEMORY_BYTES,
            memory_total_bytes=float(MEMORY_BYTES),
            temperature_celsius=round(self._temperature, 2),
            slowdown_limit_celsius=SLOWDOWN_CELSIUS,
            shutdown_limit_celsius=SHUTDOWN_CELSIUS,
            power_watts=round(self._power, 2),
            power_limit_watts=self._power_limit,
            power_limit_default_watts=POWER_LIMIT_WATTS,
            energy_joules=round(self._energy, 3),
            sm_clock_hertz=round(self._clock),
            sm_clock_max_hertz=CLOCK_MAX_HERTZ,
            clock_event_seconds={k: round(v, 6) for k, v in self._throttled.items()},
            clock_event_active=[self._reason] if self._reason else [],
        )

    def write(self, path: Path) -> None:
        """Replace the state file atomically."""
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(self.state()))
        temporary.replace(path)


def _follow(value: float, target: float, seconds: float, constant: float) -> float:
    """First-order lag."""
    return target + (value - target) * math.exp(-seconds / constant)
