"""Own times corrected to equal work: as if all ranks of a step had the same work to do.

log own[w, r] = window[w] + rank[r] + beta log work[w, r] + noise. The work is what ranks report
(FLOPs, or tokens). Compute grows with it by a power that is 1 for linear layers and 2 for attention
(Vaswani et al., arXiv 1706.03762, table 1), less where a step has other parts; so beta has a normal
prior around 1, is learned from how a rank's own steps differ, and stays within 0 and 2.

That a rank always has other work is believed only where beta is learned: what is reported and costs
nothing (padding, a counter that is wrong) never differs with the steps' own time.
"""

from dataclasses import replace

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.stats.changepoint import TAILS
from lockstep.analyzer.stats.robust_stats import median
from lockstep.collector.contract.robust import MAD_TO_SIGMA

PRIOR, PRIOR_DEVIATION, MOST = 1.0, 0.5, 2.0
LEARNED = 0.15
"""Deviation of beta up to which it counts as learned: a constant 1.3x of work is then known to cost
within 4 %, below what a record needs."""
SAME = 1e-3
"""Logarithms of work that differ by less are the same work."""
ROUNDS = 3
"""Of clipping and fitting: the exponent then moves by less than its deviation."""


def for_same_work(grid: Grid) -> Grid:
    """The grid with each rank's own time as it would be at the window's median work.

    Unchanged where ranks do not report their work, or all have the same.
    """
    work = grid.work_by_rank
    if work is None:
        return grid
    with np.errstate(divide="ignore", invalid="ignore"):
        told = np.where(work > 0, np.log(work), np.nan)
    more = told - median(told, 1, keepdims=True)
    if not (np.abs(more) > SAME).any():
        return grid
    beta, deviation = exponent(grid, more)
    if deviation > LEARNED:
        more = more - median(more, 0)
    own = grid.time["own"] * np.exp(-beta * np.where(np.isfinite(more), more, 0.0))
    return replace(grid, time={**grid.time, "own": own})


def exponent(grid: Grid, more: FloatGrid) -> tuple[float, float]:
    """(beta, its deviation); `more` is (W, R) log work over the window's median."""
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.log(grid.time["own"])
    there = np.isfinite(own) & np.isfinite(more) & ~grid.masked[:, None]
    own, more = (np.where(there, cells, np.nan) for cells in (own, more))
    work = _within(more)
    beta, deviation = PRIOR, PRIOR_DEVIATION
    for _ in range(ROUNDS):
        left = _within(own - beta * more)
        spread = MAD_TO_SIGMA * float(np.nanmedian(np.abs(left))) if there.any() else 0.0
        if not spread > 0.0:
            break
        weight = (spread / PRIOR_DEVIATION) ** 2
        clipped = np.clip(left, -TAILS * spread, TAILS * spread) + beta * work
        squares = float(np.nansum(work**2) + weight)
        beta = float(np.clip((np.nansum(work * clipped) + weight * PRIOR) / squares, 0.0, MOST))
        deviation = spread / squares**0.5
    return beta, deviation


def _within(cells: FloatGrid) -> FloatGrid:
    """What is left of each cell when its window's and its rank's median are taken off."""
    left = cells - median(cells, 1, keepdims=True)
    found: FloatGrid = left - median(left, 0)
    return found
