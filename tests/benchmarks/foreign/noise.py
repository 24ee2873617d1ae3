"""What differs from step to step and from rank to rank by chance, and is nobody's fault."""

import math
from dataclasses import dataclass

import numpy as np

from tests.benchmarks.foreign.scenario import Scenario
from tests.benchmarks.simulated.arrays import Floats, Generator, Ints

WANDERING_STEPS = 150.0
"""Steps in which a wandering level forgets."""


@dataclass
class Noise:
    """Draws of a whole run.

    Attributes:
        kernels: (steps, ranks) standard normal, each step like the one before.
        stalls: (steps, ranks) shares by which kernels are longer, mostly 0.
        nodes: (steps, nodes) standard normal, common to a node.
        lengths: (steps, replicas) factors of sequence lengths.
        chance: (steps, ranks) uniform.
        transfers: (steps, stages) factors of transfers; traffic (steps,) of others likewise.
        cron: (steps, nodes) factors of what cron leaves.
        collecting: (ranks,) steps between collections of garbage.
    """

    kernels: Floats
    stalls: Floats
    nodes: Floats
    lengths: Floats
    chance: Floats
    transfers: Floats
    traffic: Floats
    cron: Floats
    collecting: Ints


def draw_noise(scenario: Scenario) -> Noise:
    """The same for a run with its faults and without."""
    rng = scenario.stream("walk")
    layout, compute, habits = scenario.layout, scenario.compute, scenario.habits
    steps, shape = scenario.length.steps, (scenario.length.steps, layout.ranks)
    kernels = _remembering(rng.standard_normal(shape), compute.memory)
    stalled = rng.random(shape) < compute.tail
    stalls = np.where(stalled, np.minimum(np.abs(rng.standard_t(2, shape)) * 0.05, 1.2), 0)
    nodes = _of_nodes(rng.standard_normal((steps, layout.nodes)))
    lengths = np.ones((steps, layout.dp))
    if spread := habits.length_spread:
        draws = rng.standard_normal((steps, layout.dp))
        lengths = np.exp(spread * draws - spread**2 / 2)
    if habits.skew is not None:
        replica, begin, factor = habits.skew
        lengths[int(steps * begin) : int(steps * (begin + 0.3)), replica] *= factor
    if scenario.has("wander"):
        _wander(rng, kernels, compute.noise)
    return Noise(
        kernels=kernels, stalls=stalls, nodes=nodes, lengths=lengths, chance=rng.random(shape),
        transfers=np.exp(rng.uniform(0.02, 0.07) * rng.standard_normal((steps, layout.pp))),
        traffic=_bursts(rng, steps) if scenario.surroundings.other_traffic else np.ones(steps),
        cron=rng.uniform(0.85, 1.15, (steps, layout.nodes)),
        collecting=rng.integers(20, 60, layout.ranks),
    )  # fmt: skip


def _remembering(draws: Floats, memory: float) -> Floats:
    """(steps, ranks) autoregressive of the first order, with deviation 1."""
    now, found = draws[0] * 1.0, np.empty_like(draws)
    for step, draw in enumerate(draws):
        now = memory * now + math.sqrt(1 - memory**2) * draw
        found[step] = now
    return found


def _of_nodes(draws: Floats) -> Floats:
    now, found = np.zeros(draws.shape[1]), np.empty_like(draws)
    for step, draw in enumerate(draws):
        now = 0.9 * now + 0.436 * draw
        found[step] = now
    return found


def _wander(rng: Generator, kernels: Floats, noise: float) -> None:
    """Adds levels of ranks that go up and down over minutes, by 2 %."""
    now, keeps = np.zeros(kernels.shape[1]), math.exp(-1 / WANDERING_STEPS)
    for step in range(len(kernels)):
        draw = rng.standard_normal(kernels.shape[1])
        now = keeps * now + math.sqrt(1 - keeps * keeps) * draw
        kernels[step] = kernels[step] + now * 0.02 / noise


def _bursts(rng: Generator, steps: int) -> Floats:
    """(steps,) factors by which another job's traffic makes transfers longer."""
    factors, step = np.ones(steps), 0
    while step < steps:
        lasting = int(rng.exponential(steps * 0.06)) + 2
        factors[step : step + lasting] = 1 + rng.uniform(0.3, 1.5)
        step += lasting + int(rng.exponential(steps * 0.1)) + 3
    return factors
