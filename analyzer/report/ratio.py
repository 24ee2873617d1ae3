"""How many times as large one series of steps is as another, with an honest interval."""

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.analyzer.stats.changepoint import BLOCKS_AT_MOST, OUTSIDE_AT_LEAST

STEPS_AT_LEAST = OUTSIDE_AT_LEAST
"""Of either series: fewer say nothing of their noise."""
RESAMPLES = 2000
WORTH_TELLING = 0.01
"""A certain difference of less than 1 % is not told."""


def ratio(one: FloatGrid, other: FloatGrid) -> tuple[float, float, float] | None:
    """The ratio of the medians and its 95 % interval; None with too few steps, or zeros.

    Args:
        one: (T,) finite values in the order of their steps.
        other: (U,) the values to hold them against.
    """
    if min(len(one), len(other)) < STEPS_AT_LEAST or not (np.median(other) and np.median(one)):
        return None
    dice = np.random.default_rng(0)
    ratios = _resampled(one, dice) / _resampled(other, dice)
    if not np.isfinite(ratios).all():
        return None
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(np.median(one) / np.median(other)), float(low), float(high)


def middles(values: FloatGrid) -> FloatGrid:
    """(B,) medians of at most BLOCKS_AT_MOST groups of neighbouring steps.

    Steps beside each other are not independent; groups of them nearly are.
    """
    groups = np.array_split(values, min(BLOCKS_AT_MOST, len(values)))
    return np.array([np.median(group) for group in groups])


def _resampled(values: FloatGrid, dice: np.random.Generator) -> FloatGrid:
    """(RESAMPLES,) medians over groups that were drawn with repeats."""
    middle = middles(values)
    drawn: NDArray[np.int64] = dice.integers(len(middle), size=(RESAMPLES, len(middle)))
    medians: FloatGrid = np.median(middle[drawn], axis=1)
    return medians
