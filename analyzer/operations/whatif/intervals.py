"""How far a ratio of means over steps may be off: the bootstrap."""

import numpy as np

from lockstep.analyzer.shapes.operations import Floats
from lockstep.analyzer.stats.changepoint import OUTSIDE_AT_LEAST

RESAMPLES = 1000
LEVEL = 0.95
FEWEST_STEPS = OUTSIDE_AT_LEAST
"""As of blocks of windows: fewer say nothing about a change, nor about the noise between steps."""


def weights(steps: int, seed: int = 0) -> Floats | None:
    """(RESAMPLES, S) how often each step is drawn; None with too few steps.

    The steps are drawn with replacement (Efron 1979), with a fixed seed: the same trace gives the
    same interval.
    """
    if steps < FEWEST_STEPS:
        return None
    dice = np.random.default_rng(seed)
    return dice.multinomial(steps, np.full(steps, 1 / steps), size=RESAMPLES).astype(float)


def of_ratio(over: Floats, under: Floats, drawn: Floats | None) -> tuple[float, float] | None:
    """The interval of mean(over) / mean(under); None with too few steps or a denominator near 0.

    Args:
        over: (S,) a value a step.
        under: (S,) the same.
        drawn: Of `weights`.
    """
    if drawn is None:
        return None
    below = drawn @ under
    if np.min(np.abs(below)) <= 1e-9 * np.max(np.abs(drawn @ over), initial=1e-300):
        return None
    low, high = np.quantile((drawn @ over) / below, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
