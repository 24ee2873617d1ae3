"""The scene that scrapes of a run look at, and when they came."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.benchmarks.independent.faults import VISIBLE, Fault, Stop
from tests.benchmarks.independent.layout import Plan, World
from tests.benchmarks.independent.noise import Noise
from tests.benchmarks.independent.steps import Timeline
from tests.benchmarks.simulated.arrays import Bools, Floats, Generator, Ints
from tests.benchmarks.simulated.samples import Samples

PERIOD = 15.0
"""Seconds between scrapes."""
NEVER = 1e18


@dataclass
class Scene:
    """A run as it went, in unix time, and when it was scraped.

    Attributes:
        quiet: The same run without faults.
        names: Of nodes.
        last_word: (steps,) moments in which all ranks had synced.
        start, end: (steps, ranks) moments.
        cpu: (steps, ranks) seconds.
        tokens, flops: (steps, ranks).
        loss: (steps, ranks) nats; NaN but for the last stage.
        stopped: When a run with a stop stood still, and else `NEVER`.
        finish: The last moment that is watched.
        times: (scrapes,) for each node, those that came.
        late: Seconds by which sensors of each fault lag, where they do.
        decoys: What sensors say though it costs no time, for the truth.
    """

    world: World
    noise: Noise
    plan: Plan
    timeline: Timeline
    quiet: Timeline
    faults: list[Fault]
    stop: Stop | None
    names: list[str]
    last_word: Floats
    start: Floats
    end: Floats
    cpu: Floats
    tokens: Floats
    flops: Floats
    loss: Floats
    stopped: float
    finish: float
    times: list[Floats] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    decoys: dict[str, Any] = field(default_factory=dict)

    @property
    def begin(self) -> float:
        return float(self.start.min())

    @property
    def tells_work(self) -> Bools:
        """(ranks,) of those that tell samples and tokens: one of each replica."""
        world = self.world
        telling: Bools = (world.pp_of == world.layout.pp - 1) & (world.tp_of == 0)
        return telling

    def step_at(self, times: Floats) -> Ints:
        return np.clip(np.searchsorted(self.last_word, times), 0, self.world.steps - 1)

    def shown(self, fault: Fault, times: Floats) -> Floats:
        """0 to 1, how much of a fault sensors show at these times."""
        seen = times
        if fault.telemetry == "late":
            seen = times - self.late[self.faults.index(fault)]
        there = fault.level[self.step_at(seen)] * (seen >= self.begin)
        return there * VISIBLE[fault.telemetry]


def scrape(rng: Generator, scene: Scene, samples: Samples) -> None:
    """When each node was scraped, with `up`; some scrapes are lost, and some in a row."""
    for name in scene.names:
        begin = scene.begin + rng.uniform(0, PERIOD)
        times = np.arange(begin, scene.finish + (PERIOD + 1), PERIOD)
        times = times + rng.normal(0, 0.12, len(times))
        lost = rng.random(len(times)) < scene.plan.lost
        if rng.random() < 0.04 and len(times) > 40:
            first = rng.integers(5, len(times) - 8)
            lost[first : first + rng.integers(4, 8)] = True
        samples.add(name, -1, -1, "up", "", times, (~lost).astype(float))
        scene.times.append(times[~lost])


def counted(rng: Generator, times: Floats, rate: npt.ArrayLike, start: int | None = None) -> Floats:
    """Cumulative counts at `times`, Poisson with `rate` a second; `start` None draws one."""
    first = int(rng.integers(0, 50)) if start is None else start
    expected = np.broadcast_to(np.asarray(rate, float), times.shape) * intervals(times)
    counts: Floats = (first + np.cumsum(rng.poisson(np.maximum(expected, 0)))).astype(float)
    return counts


def intervals(times: Floats) -> Floats:
    """Seconds since the scrape before, of the first the period."""
    return np.diff(times, prepend=times[0] - PERIOD)
