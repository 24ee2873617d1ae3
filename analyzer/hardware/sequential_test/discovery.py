"""Which of many streams are reported in one cycle: online false discovery control by e-values."""

import numpy as np
from numpy.typing import NDArray

ALPHA = 0.05
"""Share of the reported streams that may be healthy, on average over cycles."""


def recency(age: NDArray[np.float32]) -> NDArray[np.float64]:
    """Weight of a change that is `age` >= 1 checks old, 1 / (age (age + 1)).

    The weights of all ages add up to 1. The best likelihood ratio over all starts, times the weight
    of its start, is at most the weighted sum over starts, so that its expectation in a healthy
    stream is at most 1: an e-value of "it changed some time before now" at any fixed check.
    """
    weight = np.asarray(age, dtype=np.float64)
    return np.asarray(1 / (weight * (weight + 1)))


def e_bh(e_values: NDArray[np.float64], tested: int, alpha: float = ALPHA) -> NDArray[np.bool_]:
    """Those reported at level `alpha`: the k largest, k the most with k e_(k) >= tested / alpha.

    The expected share of healthy ones among the reported is at most alpha under any dependence,
    so also where streams share their peers (Wang and Ramdas, arXiv 2009.02824).

    Args:
        e_values: Of the streams that could be reported, (n,); NaN is none.
        tested: How many streams were judged in the cycle, those left out as hopeless included.
    """
    values = np.nan_to_num(e_values, nan=0.0)
    order = np.argsort(-values, kind="stable")
    enough = np.flatnonzero(np.arange(1, len(values) + 1) * values[order] >= tested / alpha)
    reported = np.zeros(len(values), dtype=np.bool_)
    if enough.size:
        reported[order[: enough[-1] + 1]] = True
    return reported
