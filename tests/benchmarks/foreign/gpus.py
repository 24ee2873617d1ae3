"""Clock, power and heat of all GPUs: circuits whose state feeds back from step to step.

Power goes as the 2.4th power of the clock (voltage follows it), leakage grows with temperature,
the die warms as an RC circuit against the inlet air, a fan lowers its resistance, and a controller
takes from the clock what is above its target temperature.
"""

import math
from dataclasses import dataclass

import numpy as np

from tests.benchmarks.foreign.effects import (
    DYNAMIC_WATTS,
    IDLE_WATTS,
    POWER_EXPONENT,
    RESISTANCE,
    TARGET,
    StepEffects,
)
from tests.benchmarks.foreign.scenario import FASTEST, Scenario
from tests.benchmarks.simulated.arrays import Floats

CLOCK_STEP = 15e6
"""Hertz: clocks are multiples of it."""


@dataclass(frozen=True)
class Clocks:
    """Of a step; (ranks,).

    Attributes:
        clock: Hertz; capped is what power alone allows, and drift a factor of kernel time.
        idle_watts: With leakage.
        inlet: Degrees Celsius.
    """

    clock: Floats
    capped: Floats
    drift: Floats
    idle_watts: Floats
    inlet: Floats


class Gpus:
    """State of all GPUs; (ranks,) each."""

    def __init__(self, scenario: Scenario) -> None:
        ranks = scenario.layout.ranks
        self._scenario = scenario
        self.celsius = np.full(ranks, 45.0)
        self._fan = np.full(ranks, 0.4)
        self._allowed = np.full(ranks, FASTEST)

    def cool(self) -> None:
        """While a run begins anew."""
        self.celsius[:] = 45

    def clocks(self, share: float, seconds: float, effects: StepEffects) -> Clocks:
        """At the begin of a step, after this share of the run and so many seconds."""
        scenario, compute = self._scenario, self._scenario.compute
        around = scenario.surroundings
        room = 38 * max(0.0, min(1.0, (share - 0.4) / 0.3)) if scenario.has("hotroom") else 0
        swing = around.swing * math.sin(2 * math.pi * seconds / around.swing_seconds)
        inlet = room + around.inlet[scenario.layout.node] + swing
        idle = IDLE_WATTS * (1 + 0.004 * np.maximum(0, self.celsius - 50))
        spare = (effects.power_limit - idle) / (DYNAMIC_WATTS * compute.silicon)
        capped = FASTEST * np.clip(spare, 0.05, 1.0) ** (1 / POWER_EXPONENT)
        if around.power_budget and share > 0.4:
            capped = np.minimum(capped, FASTEST * 0.93)
        capped = np.round(capped / CLOCK_STEP) * CLOCK_STEP
        clock = np.minimum(np.minimum(capped, self._allowed), effects.brake)
        drift = 1 + 0.0003 * np.maximum(0, self.celsius - 60)
        return Clocks(clock, capped, drift, idle, inlet)

    def warm(
        self, clocks: Clocks, wall: Floats, busy: Floats, resistance: Floats
    ) -> tuple[Floats, Floats]:
        """Runs the circuits for a step of `wall` seconds, `busy` a share of them.

        Returns watts, and seconds in which the controller slowed the clock. `resistance` are
        factors.
        """
        compute = self._scenario.compute
        dynamic = DYNAMIC_WATTS * compute.silicon * busy
        watts = clocks.idle_watts + dynamic * (clocks.clock / FASTEST) ** POWER_EXPONENT
        pieces = max(1, int(wall.max() / 4))
        passed = wall / pieces
        for _ in range(min(pieces, 30)):
            follows = 1 - np.exp(-passed / 20)
            wanted = np.clip((self.celsius - 58) / 22, 0.3, 1)
            self._fan += wanted * follows - self._fan * follows
            still = RESISTANCE * compute.cooling * resistance
            against = still * (1.35 - 0.35 * self._fan)
            settled = clocks.inlet + against * watts
            self.celsius += (settled - self.celsius) * (1 - np.exp(-passed / 30))
            too_hot = (self.celsius - TARGET) * 6e6 * np.minimum(passed, 5)
            self._allowed = np.clip(self._allowed - too_hot, 0.25 * FASTEST, FASTEST)
        slowed = wall * np.clip((clocks.capped - self._allowed) / 30e6, 0, 1) * busy
        return watts, slowed
