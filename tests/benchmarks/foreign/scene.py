"""What scrapes look at: a run as it went, in unix time, and each node with when it was scraped."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tests.benchmarks.foreign.faults import Fault
from tests.benchmarks.foreign.scenario import Scenario
from tests.benchmarks.foreign.timeline import Timeline
from tests.benchmarks.simulated.arrays import Bools, Floats, Generator, Ints
from tests.benchmarks.simulated.samples import Samples

DECOYS = ("ecc", "replay", "retrans", "hot")
"""What a sensor says though it costs no time: a little of it is everywhere."""


@dataclass
class Scene:
    """A run and its scrapes.

    Attributes:
        names: Of nodes.
        finish: Unix time of the last moment that is watched; after_stop seconds of it come after
            a run that stopped.
        decoys: The rank of each, or nothing.
    """

    scenario: Scenario
    timeline: Timeline
    rng: Generator
    names: list[str]
    finish: float
    after_stop: float
    decoys: dict[str, int]
    samples: Samples = field(default_factory=Samples)

    @property
    def begin(self) -> float:
        return self.scenario.surroundings.begin

    @cached_property
    def wall(self) -> Floats:
        """(steps, ranks) seconds."""
        return self.timeline.wall

    @cached_property
    def mean_wall(self) -> Floats:
        """(steps,) seconds over ranks; mean_start is unix time likewise."""
        mean: Floats = self.wall.mean(1)
        return mean

    @cached_property
    def mean_start(self) -> Floats:
        mean: Floats = self.timeline.start.mean(1)
        return mean

    @cached_property
    def mean_end(self) -> Floats:
        mean: Floats = self.timeline.end.mean(1)
        return mean

    def first(self, fault: Fault) -> float:
        """Unix time of its first step; long after all where it has none."""
        steps = np.flatnonzero(self.timeline.level(fault) > 0)
        return float(self.mean_start[steps[0]]) if len(steps) else 1e18

    def lacks(self, family: str) -> bool:
        return family in self.scenario.surroundings.missing


@dataclass
class Node:
    """A node, and the scrapes of it that came.

    Attributes:
        ranks: Of the node.
        times: (scrapes,) unix time.
        done: (scrapes,) steps that the run had done by then.
    """

    number: int
    name: str
    ranks: Ints
    times: Floats
    done: Ints
    scene: Scene

    @cached_property
    def now(self) -> Ints:
        """(scrapes,) step that is under way, at the end the last one."""
        return np.minimum(self.done, self.scene.timeline.steps - 1)

    @cached_property
    def elapsed(self) -> Floats:
        """(scrapes,) seconds since the run began."""
        return np.maximum(self.times - self.scene.begin, 0)

    def total(self, each: Floats) -> Floats:
        """(scrapes,) sums of (steps,) over the steps that are done."""
        return summed(each)[self.done]

    def add(self, metric: str, labels: str, values: npt.ArrayLike) -> None:
        """A series of the node itself."""
        self.scene.samples.add(self.name, -1, -1, metric, labels, self.times, values)

    def counted(self, rate: npt.ArrayLike) -> Floats:
        """(scrapes,) counts so far, Poisson with `rate` a scrape."""
        expected = np.broadcast_to(np.asarray(rate, float), self.times.shape)
        return np.cumsum(self.scene.rng.poisson(expected)).astype(float)


def summed(each: Floats) -> Floats:
    """Along steps, from 0 on: one longer than (steps, ...)."""
    sums: Floats = np.concatenate([np.zeros((1, *each.shape[1:])), np.cumsum(each, 0)])
    return sums


def nodes(scene: Scene) -> Iterator[Node]:
    """Scrapes node by node, and tells `up`; without nodes of which no scrape came."""
    scenario, rng = scene.scenario, scene.rng
    period = scenario.length.scrape
    seconds = scene.finish - scene.begin
    for number, name in enumerate(scene.names):
        first = scene.begin - 5 + rng.uniform(0, period)
        times = first + np.arange(0, seconds + 5 + period, period)
        times = times + rng.normal(0, 0.15, len(times))
        times = times[times < scene.finish]
        came = rng.random(len(times)) >= scenario.surroundings.lost
        came &= ~_silent(scene, number, times, seconds)
        scene.samples.add(name, -1, -1, "up", "", times, came.astype(float))
        times = times[came]
        if len(times):
            ranks = np.flatnonzero(scenario.layout.node == number)
            done = np.searchsorted(scene.mean_end, times)
            yield Node(number, name, ranks, times, done, scene)


def _silent(scene: Scene, node: int, times: Floats, seconds: float) -> Bools:
    silent = np.zeros(len(times), bool)
    for number, begin, end in scene.scenario.surroundings.silent:
        if number == node:
            after = times >= scene.begin + begin * seconds
            silent |= after & (times < scene.begin + end * seconds)
    stop = scene.timeline.stop
    if stop is not None and stop.kind == "nodelost" and stop.node == node:
        silent |= times >= scene.timeline.finish
    return silent
