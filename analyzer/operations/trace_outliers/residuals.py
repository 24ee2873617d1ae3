"""What is left of a worker's own time when stage and work are taken out (docs/method/peers.md)."""

import numpy as np

from lockstep.analyzer.operations.trace_outliers.cells import Cells
from lockstep.analyzer.shapes.operations import Flags, Floats
from lockstep.analyzer.stats.peer_groups import others_median
from lockstep.analyzer.stats.robust_stats import mean, median
from lockstep.collector.contract.robust import MAD_TO_SIGMA

LENGTHS = 0.04
"""Spread of the work inside a step from which its sequences count as uneven: a replica that is long
on all stages may then just have more to do. Trace AR's healthy workers show 1.5 to 2.5 %."""


def own_times(found: Cells, slow: Flags) -> tuple[Floats, bool]:
    """(P, D, S) log own time of each worker at the same work, and whether that is by other stages.

    Where sequences are uneven, long ones are long on all stages of a replica: the same
    micro-batches there say how much work they were. With one replica there is nobody to compare the
    rest with, so that steps stay as they are.

    Args:
        found: The computations.
        slow: (P, D) workers known to be slow; they are nobody's reference.
    """
    cancelled = found.cancels and slow.shape[1] > 1 and uneven(found, slow) >= LENGTHS
    ratio = found.ratio
    if cancelled:
        ratio = ratio - others_median(ratio, 2, ~slow[:, :, None])
    return mean(ratio, (0, 1)), cancelled


def fastest_passes(found: Cells, slow: Flags) -> list[Floats]:
    """The same of the fastest forward and of the fastest backward pass of a step; [] if uneven.

    A fault slows these too and background traffic does not reach them: healthy workers of a public
    trace differ by 0.5 % in their means and by 0.2 % in their fastest forward passes (measured).
    """
    if uneven(found, slow) >= LENGTHS:
        return []
    fastest = np.where(np.isnan(found.ratio), np.inf, found.ratio).min(axis=1)
    return [np.where(np.isfinite(each), each, np.nan) for each in fastest]


def replica_levels(found: Cells, slow: Flags) -> Floats:
    """(D,) log of how much longer a replica takes on all stages alike; 0 with one stage."""
    if not found.cancels or slow.shape[1] < 2:
        return np.zeros(slow.shape[1])
    long = median(work(found, slow), (0, 1))
    return median(long - median(long, 0, keepdims=True), 1)


def work(found: Cells, slow: Flags) -> Floats:
    """(2, M, D, S) log of how much longer a micro-batch is than usual, by its healthy stages."""
    return median(np.where(slow[:, :, None], np.nan, found.ratio), 2)


def uneven(found: Cells, slow: Flags) -> float:
    """Robust spread of the log work of micro-batches inside a step."""
    both = median(work(found, slow), 0)
    away = np.abs(both - median(both, 0, keepdims=True))
    away = away[np.isfinite(away)]
    return MAD_TO_SIGMA * float(np.median(away)) if away.size else 0.0
