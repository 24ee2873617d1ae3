"""What is left of a worker's own time when stage and work are taken out (docs/method/peers.md)."""

from dataclasses import dataclass

import numpy as np

from analyzer.operations import Flags, Floats
from analyzer.trace_outliers.cells import Cells
from analyzer.trace_outliers.others import others_median
from analyzer.trace_outliers.robust_stats import mean, median
from collector.contract.robust import MAD_TO_SIGMA

LENGTHS = 0.04
"""Spread of the work inside a step from which its sequences count as uneven: a replica that is long
on all stages may then just have more to do. Trace AR's healthy workers show 1.5 to 2.5 %."""


@dataclass(frozen=True, slots=True)
class Series:
    """The log ratio of each worker's own time to what it should be, step by step.

    Attributes:
        own: (P, D, S) beside the other stages, or as it is; its own past can be seen here. With
            one replica as it is: beside the other stages it moves when those do.
        peers: (P, D, S) beside the other replicas of its stage; with one replica, beside its other
            stages, so that what all stages do alike is no one's.
        cancelled: Whether the work of micro-batches is taken out.
    """

    own: Floats
    peers: Floats
    cancelled: bool


def comparisons(found: Cells, slow: Flags) -> list[Series]:
    """The fair ways to compare workers, the first of them on all that they compute.

    Across stages where micro-batches are known, because long sequences are long everywhere; plainly
    between replicas where nothing cancels or sequences are even. Where they are even, also by the
    fastest pass of a step, which a fault slows too and background traffic does not reach: trace
    AR's healthy workers differ by 0.5 % in their means and by 0.2 % in their fastest forward
    passes (measured).

    Args:
        found: The computations.
        slow: (P, D) workers known to be slow; they are nobody's reference.
    """
    trusted = ~slow[:, :, None]
    chosen = []
    if found.cancels:
        across = mean(found.ratio - others_median(found.ratio, 2, trusted), (0, 1))
        chosen.append(
            Series(mean(found.ratio, (0, 1)), across, cancelled=True)
            if across.shape[1] == 1
            else _against(across, trusted, cancelled=True)
        )
    even = uneven(found, slow) < LENGTHS
    if even or not found.cancels:
        chosen.append(_against(mean(found.ratio, (0, 1)), trusted, cancelled=False))
    if even:
        fastest = np.where(np.isnan(found.ratio), np.inf, found.ratio).min(axis=1)
        known = np.where(np.isfinite(fastest), fastest, np.nan)
        chosen += [_against(own, trusted, cancelled=False) for own in known]
    return chosen


def _against(own: Floats, trusted: Flags, *, cancelled: bool) -> Series:
    """Beside the other replicas: what a stage does in a step everywhere is nobody's fault.

    With one replica beside its other stages, each of them beside its own usual time.
    """
    axis = 0 if own.shape[1] == 1 else 1
    return Series(own, own - others_median(own, axis, trusted), cancelled)


def work(found: Cells, slow: Flags) -> Floats:
    """(2, M, D, S) log of how much longer a micro-batch is than usual, by its healthy stages."""
    return median(np.where(slow[:, :, None], np.nan, found.ratio), 2)


def uneven(found: Cells, slow: Flags) -> float:
    """Robust spread of the log work of micro-batches inside a step."""
    both = median(work(found, slow), 0)
    away = np.abs(both - median(both, 0, keepdims=True))
    away = away[np.isfinite(away)]
    return MAD_TO_SIGMA * float(np.median(away)) if away.size else 0.0
