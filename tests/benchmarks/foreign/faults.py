"""What is injected: which kind, where, and how it goes in time."""

import math
from dataclasses import dataclass

import numpy as np

from tests.benchmarks.simulated.arrays import Floats

STOP = "stop"
SHAPES = ("step", "step", "ramp", "periodic", "onoff", "pulse", "start")
"""Twice as often a step: it comes and stays, or goes once."""


@dataclass(eq=False)
class Fault:
    """One fault.

    Attributes:
        scope: rank, node or link.
        rank, node: Where it is drawn; ranks and nodes are all that it touches.
        factor: Times by which it is meant to slow what it slows, at its height.
        begin, end: Shares of the run; -1 is before the first step, more than 1 after the last.
        period, duty: Seconds, and the share of them with the fault, of one that comes and goes.
        flips: Shares of the run after `begin` at which one goes on and off at random.
        drawn: A standard normal draw, for how many pauses there are.
        rail: Adapter of the node; leaf is the number of the switch.
    """

    kind: str
    scope: str
    rank: int
    node: int
    factor: float
    shape: str
    begin: float
    end: float
    period: float
    duty: float
    drawn: float
    flips: Floats
    ranks: list[int]
    nodes: list[int]
    rail: int
    leaf: int | None = None

    def level(self, share: float, seconds: float) -> float:
        """0 to 1, how much of it there is after this share of the run, and so many seconds."""
        if self.shape == STOP or share < self.begin or share >= self.end:
            return 0.0
        if self.shape == "ramp":
            return min(1.0, (share - self.begin) / max(0.05, (0.95 - self.begin)))
        if self.shape == "periodic":
            return 1.0 if (seconds % self.period) < self.duty * self.period else 0.0
        if self.shape == "onoff":
            return float(np.searchsorted(self.flips, share - self.begin) % 2 == 0)
        return 1.0

    def times(self, level: float) -> float:
        """By how much it slows at that level."""
        return 1 + (self.factor - 1) * level

    def pauses(self, steps: int) -> dict[int, float]:
        """Steps in which a process stands still, and for how many seconds."""
        count = 2 + int(abs(self.drawn) * 2.5)
        pauses = {}
        for number in range(count):
            share = self.begin + number * 0.4 / count * (1 - self.begin) * 2
            seconds = float(20 + 25 * abs(math.sin(number + self.drawn)))
            pauses[int(steps * min(0.97, share))] = seconds
        return pauses
