"""What slows a run, or looks as if it did, and is no rank's or node's fault.

`stage`, `seq`, `diurnal` and `periodic` are of a run's making (`layout`, `noise`); the others
are added here.
"""

import numpy as np

from tests.benchmarks.independent.layout import World
from tests.benchmarks.independent.noise import Coincidence, Noise, jitter, slow_drift
from tests.benchmarks.simulated.arrays import Generator

USUAL = ("alldata", "batch", "stage", "seq", "periodic", "diurnal")
HARD = ("rotating", "spine", "coincidence", "moe", "compile", "coincidence")
STAGED = ("ppdp", "3d", "ppnode", "dp1")
"""Layouts in which a stage can be uneven."""


def add(rng: Generator, world: World, noise: Noise, benign: str | None) -> None:
    """Changes `noise`; nothing where `benign` is of a run's making."""
    steps, ranks, seconds = world.steps, world.ranks, world.step_seconds
    if benign == "rotating":  # another rank each step
        who = rng.integers(0, ranks, steps)
        factor = 1 + (rng.random(steps) < 0.5) * rng.uniform(0.1, 0.8, steps)
        noise.forward[np.arange(steps), who] *= factor
        noise.backward[np.arange(steps), who] *= factor
    elif benign == "spine":  # the fabric above everybody
        begin = int(steps * rng.uniform(0.2, 0.7))
        noise.dp[begin:] *= rng.uniform(1.5, 4)
        noise.pp[begin:] *= 2
        noise.run_wide = (benign, begin, 0)
    elif benign == "moe":  # experts that are more and less asked for
        drift = slow_drift(rng, steps, ranks, 30, 0.04)
        factor = np.exp(drift + rng.normal(0, 0.06, (steps, ranks)))
        noise.forward *= factor
        noise.backward *= factor
    elif benign == "compile":
        while_cold = int(steps * 0.06) + 3
        hit = rng.random((while_cold, ranks)) < 0.1
        noise.other[:while_cold] += hit * rng.exponential(5 * seconds, (while_cold, ranks))
    elif benign in ("alldata", "batch", "coincidence"):
        begin = int(steps * rng.uniform(0.2, 0.7))
        times = rng.uniform(1.06, 1.6)
        if benign == "batch":
            noise.forward[begin:] *= times
            noise.backward[begin:] *= times
            noise.tokens[begin:] *= times
        else:
            more = jitter(rng, world, (steps - begin, ranks), 0.06)
            noise.data[begin:] += seconds * (times - 1) * more
        if benign == "coincidence":
            sensors = ["ecc", "hot", "pcie", "clock", "port"]
            noise.coincidence = Coincidence(
                int(rng.integers(ranks)), begin, str(rng.choice(sensors))
            )
        noise.run_wide = (benign, begin, times)
