"""What an injected fault measurably did: its factor on the culprit's own time."""

import math

import numpy as np
from numpy.typing import NDArray

from workloads.faults.plan import Fault
from workloads.warmup import WARMUP_STEPS

TRIM = 0.1
"""Share of the slowest and fastest steps left out of a mean: scheduler outliers."""


def factor_measured(
    fault: Fault, steps: NDArray[np.int64], own_seconds: NDArray[np.float64]
) -> float | None:
    """Own time per step during the fault over before; None where one of them is missing.

    Args:
        fault: The fault; its `factor` is what was intended.
        steps: (N,) step numbers of the culprit.
        own_seconds: (N,) its own time in those steps.
    """
    before = own_seconds[(steps >= WARMUP_STEPS) & (steps < fault.from_step)]
    during = own_seconds[(steps >= fault.from_step) & (steps < fault.to_step)]
    ratio = _trimmed_mean(during) / _trimmed_mean(before)
    return ratio if math.isfinite(ratio) else None


def _trimmed_mean(values: NDArray[np.float64]) -> float:
    if values.size == 0:
        return math.nan
    ordered = np.sort(values)
    cut = int(TRIM * ordered.size)
    return float(ordered[cut : ordered.size - cut].mean())
