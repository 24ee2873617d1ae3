"""The noise of own time, and the natural spread between identical parts."""

import numpy as np
from scipy.signal import lfilter

from analyzer.run import FloatGrid
from analyzer.synth.variant import Noise, Variant

FREEDOM = 4
"""Degrees of freedom of the heavy-tailed family: the fewest whose kurtosis is not defined."""
GAMMA_SHAPE = 2.0
RANGE_SHAPE = 4.0
WHISKERS = 2.4
"""Upper whisker (third quartile and 1.5 times the quartiles' distance) of a half-normal, in scales:
as a box plot has the range of a cluster's parts."""


def noise(dice: np.random.Generator, made: Noise, steps: int, world: int) -> FloatGrid:
    """(S, R) logarithm of own time over its usual value.

    First-order autoregressive around a part that all ranks share, and rare stalls.
    """
    shape = (steps, world)
    if made.body == "student":
        body = dice.standard_t(FREEDOM, shape) * np.sqrt((FREEDOM - 2) / FREEDOM)
    else:
        body = dice.standard_normal(shape)
    # The innovation is smaller by what memory adds, so that the scale is that of a step.
    fresh = body * made.rank * np.sqrt(1.0 - made.memory**2)
    own: FloatGrid = lfilter([1.0], [1.0, -made.memory], fresh, axis=0)
    own = own + made.common * dice.standard_normal((steps, 1))
    stalled = dice.random(shape) < made.spike
    own[stalled] += dice.gamma(made.spike_shape, made.spike_scale, int(stalled.sum()))
    return own


def spread(dice: np.random.Generator, variant: Variant, world: int) -> FloatGrid:
    """(R,) how much slower than the best part each is, as a ratio above 0."""
    drawn_range = dice.gamma(RANGE_SHAPE, variant.spread_range / RANGE_SHAPE)
    scale = min(drawn_range, variant.spread_most) / WHISKERS
    if variant.spread_scale is not None:
        scale = variant.spread_scale
    if variant.spread == "gamma":
        # The same standard deviation as the half-normal's, with a longer tail.
        deviation = scale * np.sqrt(1.0 - 2.0 / np.pi)
        drawn = dice.gamma(GAMMA_SHAPE, deviation / np.sqrt(GAMMA_SHAPE), world)
    else:
        drawn = np.abs(dice.standard_normal(world)) * scale
    cut: FloatGrid = np.minimum(drawn, variant.spread_most)
    return cut
