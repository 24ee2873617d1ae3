"""Transfer time: what is left of a collective when nobody waits for anybody."""

import numpy as np
from numpy.typing import NDArray

from analyzer.run import FloatGrid, Grid
from analyzer.slowness.changepoint import Blocks, block_means


def transfers(grid: Grid) -> FloatGrid:
    """(W,) seconds per step in collectives of the rank that spends the least there.

    All ranks are in step, by one group or another, so a slow transfer reaches every rank, and a
    slow rank every rank but itself: of its tensor-parallel peers' groups it is no member, and
    their least waits for it as well. So a window in which any rank is missing tells nothing: it
    may be the one that the others wait for.
    """
    return least(grid.time["collective"])


def of_those_who_told(grid: Grid, until: NDArray[np.int64]) -> tuple[FloatGrid, NDArray[np.int64]]:
    """(W,) the same of the ranks that told in some last windows, and the columns of these.

    Where others fell silent it is a bound: these may wait for one of them.
    """
    collective = grid.time["collective"]
    there = np.flatnonzero(np.isfinite(collective[until]).any(axis=0))
    return least(collective[:, there]), there


def least(cells: FloatGrid) -> FloatGrid:
    """(W,) the least of (W, R) cells; NaN where a rank is missing."""
    lowest: FloatGrid = np.min(cells, axis=1, initial=np.inf)
    return np.where(np.isfinite(lowest), lowest, np.nan)


def by_block(transfer: FloatGrid, groups: Blocks, usual: float) -> tuple[FloatGrid, FloatGrid]:
    """(B, 1) shares of a usual step, as medians and as means of blocks.

    A shaped link lets some steps pass at once, which medians jump over; a stall of one step counts
    in means, for a step at most.
    """
    middles = np.array([[median(transfer[members])] for members in groups.members])
    means = block_means(np.minimum(transfer, usual)[:, None], groups, spike=np.inf)
    return middles / usual, means / usual


def in_most(cells: FloatGrid) -> float:
    """The lower quartile: a slow link slows every transfer, a lack of processors only some."""
    there = cells[np.isfinite(cells)]
    return float(np.quantile(there, 0.25)) if there.size else float("nan")


def median(cells: FloatGrid) -> float:
    """The middle of what answered; NaN if nothing did."""
    there = cells[np.isfinite(cells)]
    return float(np.median(there)) if there.size else float("nan")


def mean(cells: FloatGrid) -> float:
    """The mean of what answered; NaN if nothing did."""
    there = cells[np.isfinite(cells)]
    return float(there.mean()) if there.size else float("nan")
