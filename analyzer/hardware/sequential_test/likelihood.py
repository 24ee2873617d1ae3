"""Evidence in one sample that a stream became worse: robust log likelihood ratios in nats.

The score of a standardised sample z for a shift d is ln t(z - d) / t(z), with Student's density t,
held constant beyond its two turning points. Then it never falls in z and is bounded, so that one
wild sample is worth a few nats and a very large shift is not forgiven. Less ln of its expectation
under t, exp(score) is an e-value for *every* noise that is stochastically no larger than t: a
healthy stream's expectation is at most 1, and needs no Gaussian.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr  # Student's distribution; scipy.stats would take 60 MB more

FloatArray = NDArray[np.float32]

FREEDOM = 3.0
"""Degrees of freedom of the noise. Own time of recorded healthy ranks against their peers: 3.0 in
1 s means and 2.4 in 5 s means, maximum likelihood over 112 ranks."""
SHIFTS: tuple[float, ...] = (1.0, 2.5, 5.0, 8.0, 12.0)
"""Shifts mixed over, in noise of one sample. What a sample can say at most, 5.8 nats for 8 and 7.1
for 12, decides how few are enough: four for a threshold of 21.7, so that no three wild ones are.
"""
WEIGHTS: tuple[float, ...] = (0.1, 0.15, 0.2, 0.25, 0.3)
"""Of a large shift four samples must be enough, so that a nat counts for more there."""
REACH = 24.0
"""Beyond, scores are constant: the last turning point is at 12.2."""
CELLS = 32
"""Cells of the table in one unit of z."""


NO_SAMPLE = int(2 * REACH * CELLS) + 1
"""The cell of a sample that reports nothing."""


@cache
def scores() -> FloatArray:
    """(K, NO_SAMPLE + 1) score of each shift at the lower end of each cell of z; 0 in the last.

    Scores do not fall in z, so that the lower end never says more than z itself.
    """
    z = np.arange(NO_SAMPLE) / CELLS - REACH
    table = np.array([_score(z, shift) for shift in SHIFTS])
    return np.pad(table, ((0, 0), (0, 1))).astype(np.float32)


FIRST = np.float32(REACH * CELLS)
"""Cells below z = 0."""


def cells(cell: FloatArray, none: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Cells of `scores`.

    Args:
        cell: CELLS * z + FIRST; used up.
        none: Where z is no sample.
    """
    np.clip(cell, 0, NO_SAMPLE - 1, out=cell)
    np.copyto(cell, np.float32(NO_SAMPLE), where=none)
    return cell.astype(np.intp)


def _score(z: NDArray[np.float64], shift: float) -> NDArray[np.float64]:
    middle, reach = shift / 2, np.sqrt(shift**2 / 4 + FREEDOM)
    low, high = middle - reach, middle + reach
    held = np.clip(z, low, high)
    ends = np.exp(_ratio(np.array([low, high]), shift))
    between = stdtr(FREEDOM, high - shift) - stdtr(FREEDOM, low - shift)
    expected = between + ends[0] * stdtr(FREEDOM, low) + ends[1] * stdtr(FREEDOM, -high)
    return np.asarray(_ratio(held, shift) - np.log(expected))


def _ratio(z: NDArray[np.float64], shift: float) -> NDArray[np.float64]:
    """Log ratio of Student's densities."""
    power = (FREEDOM + 1) / 2
    return np.asarray(power * np.log((FREEDOM + z**2) / (FREEDOM + (z - shift) ** 2)))
