"""What is never quite the same from step to step and from rank to rank, and is nobody's fault."""

import math
from dataclasses import dataclass

import numpy as np

from tests.benchmarks.independent.layout import Plan, World
from tests.benchmarks.simulated.arrays import Bools, Floats, Generator, Ints


@dataclass
class Coincidence:
    """A sensor of one rank that turns bad in the step in which everybody becomes slow."""

    rank: int
    step: int
    sensor: str


@dataclass
class Noise:
    """Shapes are (steps, ranks) where nothing else is said.

    Attributes:
        forward, backward: Factors of compute.
        data, other, gc, checkpoint, evaluation: Seconds.
        optimizer: Seconds.
        cpu_share: CPU seconds of a second of own work; cpu its factors.
        length: (steps, replicas, microbatches) factors of work, by the length of sequences.
        tokens: (steps, replicas) factors of tokens.
        length_spread: Deviation of the logarithm of sequence lengths.
        tp: (steps, stages, replicas), dp: (steps, stages, width), pp: (steps, stages - 1,
            replicas), world: (steps,) factors of communication.
        gc_steps, checkpoint_steps, evaluation_steps: (steps,) that are slow by design.
        warm: Steps at the begin that are slower.
        run_wide: What slows everybody, since which step, and by how much.
    """

    forward: Floats
    backward: Floats
    data: Floats
    other: Floats
    optimizer: Floats
    cpu_share: float
    cpu: Floats
    length_spread: float
    length: Floats
    tokens: Floats
    tp: Floats
    dp: Floats
    world: Floats
    pp: Floats
    gc: Floats
    gc_mode: str
    gc_steps: Bools
    checkpoint: Floats
    checkpoint_steps: Bools
    evaluation: Floats
    evaluation_steps: Bools
    warm: int = 0
    warm_told: bool = False
    run_wide: tuple[str, int, float] | None = None
    coincidence: Coincidence | None = None


def slow_drift(rng: Generator, steps: int, columns: int, memory: float, deviation: float) -> Floats:
    """(steps, columns) around 0: knots `memory` steps apart that remember, straight between."""
    if steps < 2:
        return np.zeros((steps, columns))
    count = max(2, int(steps / max(memory, 1)) + 2)
    knots = np.zeros((count, columns))
    knots[0] = rng.normal(0, deviation, columns)
    kept = math.exp(-1)
    for number in range(1, count):
        fresh = math.sqrt(1 - kept * kept) * rng.normal(0, deviation, columns)
        knots[number] = kept * knots[number - 1] + fresh
    place = np.linspace(0, count - 1.001, steps)
    before = place.astype(int)
    share = (place - before)[:, None]
    drift: Floats = knots[before] * (1 - share) + knots[before + 1] * share
    return drift


def jitter(rng: Generator, world: World, shape: tuple[int, ...], spread: float) -> Floats:
    """Factors with mean 1 and coefficient of variation `spread`."""
    if world.jitter_kind == "gamma":
        peak = 1 / spread**2
        return rng.gamma(peak, 1 / peak, shape)
    return np.exp(rng.normal(-spread * spread / 2, spread, shape))


def draw_noise(rng: Generator, world: World, plan: Plan) -> Noise:
    steps, ranks, seconds = world.steps, world.ranks, world.step_seconds
    forward, backward = _compute(rng, world, daily=plan.benign == "diurnal")
    data = world.data * rng.gamma(4, 0.25, (steps, ranks))
    if rng.random() < 0.6:  # hiccups of data loaders, of anybody
        hiccup = rng.random((steps, ranks)) < rng.uniform(1e-4, 1.2e-3)
        long = np.minimum(rng.pareto(2.5, (steps, ranks)) * 0.08, 1.5)
        data = data + hiccup * seconds * long
    other = world.other * rng.gamma(6, 1 / 6, (steps, ranks))
    optimizer = world.optimizer * jitter(rng, world, (steps, ranks), max(world.spread, 0.01))
    optimizer = optimizer * (1 + world.lottery)
    cpu_share = rng.uniform(0.15, 0.6)
    cpu = jitter(rng, world, (steps, ranks), 0.04)
    length_spread, length, tokens = _lengths(rng, world, varied=plan.benign == "seq")
    pp, dp, tp = world.grid
    of_tp = jitter(rng, world, (steps, pp, dp), 0.03)
    of_dp = rng.gamma(60, 1 / 60, (steps, pp, tp))
    of_world = rng.gamma(8, 1 / 8, steps)
    of_pp = rng.gamma(20, 1 / 20, (steps, max(pp - 1, 1), dp))
    if rng.random() < 0.5:  # hiccups of the fabric, for everybody
        hit = rng.random((steps, 1, 1)) < 0.004
        of_dp = of_dp * (1 + hit * rng.exponential(1.5, (steps, 1, 1)))
    gc_mode, gc_steps, gc = _garbage(rng, world)
    checkpoint_steps, checkpoint = _checkpoints(rng, world, surely=plan.checkpoints)
    evaluation_steps, evaluation = _evaluations(rng, world, surely=plan.benign == "periodic")
    noise = Noise(
        forward=forward, backward=backward, data=data, other=other, optimizer=optimizer,
        cpu_share=cpu_share, cpu=cpu, length_spread=length_spread, length=length, tokens=tokens,
        tp=of_tp, dp=of_dp, world=of_world, pp=of_pp, gc=gc, gc_mode=gc_mode, gc_steps=gc_steps,
        checkpoint=checkpoint, checkpoint_steps=checkpoint_steps,
        evaluation=evaluation, evaluation_steps=evaluation_steps,
    )  # fmt: skip
    noise.warm = int(rng.integers(1, 4))
    cold = rng.uniform(1.3, 4)
    noise.forward[: noise.warm] *= cold
    noise.backward[: noise.warm] *= cold
    noise.warm_told = bool(rng.random() < 0.5)
    return noise


def every(steps: int, period: int, at: int) -> Bools:
    """(steps,) that are number `at` of their period."""
    due: Bools = (np.arange(steps) % period) == at
    return due


def _compute(rng: Generator, world: World, daily: bool) -> tuple[Floats, Floats]:
    """Factors of forward and of backward: silicon, drift, the day, jitter."""
    steps, ranks = world.steps, world.ranks
    memory = max(3, 240 / world.step_seconds)
    amplitude = 0.012 * rng.uniform(0.2, 1)
    day = 1 + amplitude * _wave(rng, steps, 0.2, 2)
    if daily:
        day = 1 + 0.05 * _wave(rng, steps, 0.5, 1.5)
    deviation = rng.uniform(0.001, 0.005)
    base = (1 + world.lottery) * (1 + slow_drift(rng, steps, ranks, memory, deviation)) * day
    restless = np.full(ranks, 1.0)
    if rng.random() < 0.2:  # a harmless node that varies more
        times = rng.uniform(1.5, 3)
        restless[world.node == rng.integers(world.layout.nodes)] = times
    factors = [
        1 + (jitter(rng, world, (steps, ranks), world.spread) - 1) * restless for _ in range(2)
    ]
    forward, backward = (base * np.maximum(factor, 0.5) for factor in factors)
    return forward, backward


def _wave(rng: Generator, steps: int, fewest: float, most: float) -> Floats:
    """(steps, 1) sine of `fewest` to `most` turns, of any phase."""
    turns = np.linspace(0, rng.uniform(fewest, most), steps)
    wave: Floats = np.sin(turns * 2 * np.pi + rng.uniform(0, 6))[:, None]
    return wave


def _lengths(rng: Generator, world: World, varied: bool) -> tuple[float, Floats, Floats]:
    """Spread of sequence lengths, factors of work and of tokens; a replica shares them."""
    shape = (world.steps, world.layout.dp, world.microbatches)
    length, tokens = np.ones(shape), np.ones(shape[:2])
    if varied:
        spread = rng.uniform(0.1, 0.45)
    else:
        spread = rng.uniform(0.02, 0.1) if rng.random() < 0.25 else 0
    if spread:
        drawn = np.exp(rng.normal(-spread * spread / 2, spread, shape))
        quadratic = rng.uniform(0.05, 0.3)  # the part of attention
        length = (1 - quadratic) * drawn + quadratic * drawn**2
        length /= length.mean()
        tokens = drawn.mean(2)
    return spread, length * jitter(rng, world, shape, 0.003), tokens


def _garbage(rng: Generator, world: World) -> tuple[str, Bools, Floats]:
    """Collections of all at once (tagged), of each rank by itself, or none."""
    steps, ranks = world.steps, world.ranks
    seconds = np.zeros((steps, ranks))
    mode = str(rng.choice(["none", "sync", "own"], p=[0.5, 0.25, 0.25]))
    tagged = np.zeros(steps, bool)
    period = int(rng.integers(20, 120))
    if mode == "sync":
        tagged = every(steps, period, period - 1)
        mean = world.step_seconds * rng.uniform(0.02, 0.1)
        seconds[tagged] = mean * jitter(rng, world, (int(tagged.sum()), ranks), 0.1)
    elif mode == "own":
        phase: Ints = rng.integers(0, period, ranks)
        due = ((np.arange(steps)[:, None] + phase) % period) == 0
        seconds = due * world.step_seconds * rng.uniform(0.005, 0.03)
    return mode, tagged, seconds


def _checkpoints(rng: Generator, world: World, surely: bool) -> tuple[Bools, Floats]:
    steps, ranks = world.steps, world.ranks
    seconds, tagged = np.zeros((steps, ranks)), np.zeros(steps, bool)
    if surely or rng.random() < 0.5:
        period = max(8, int(steps / rng.integers(4, 16)))
        tagged = every(steps, period, period - 1)
        mean = min(30, max(1.5, world.step_seconds * rng.uniform(1, 6)))
        seconds[tagged] = mean * jitter(rng, world, (int(tagged.sum()), ranks), 0.07)
    return tagged, seconds


def _evaluations(rng: Generator, world: World, surely: bool) -> tuple[Bools, Floats]:
    steps, ranks = world.steps, world.ranks
    seconds, tagged = np.zeros((steps, ranks)), np.zeros(steps, bool)
    if surely or rng.random() < 0.15:
        period = max(12, int(steps / rng.integers(3, 10)))
        tagged = every(steps, period, period // 2)
        mean = world.step_seconds * rng.uniform(2, 8)
        seconds[tagged] = mean * jitter(rng, world, (int(tagged.sum()), ranks), 0.01)
    return tagged, seconds
