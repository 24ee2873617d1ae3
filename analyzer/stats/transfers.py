"""Transfer time: what is left of a collective when nobody waits for anybody."""

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.stats.changepoint import Blocks, block_means
from lockstep.analyzer.stats.peer_groups import columns_by
from lockstep.analyzer.stats.robust_stats import median_of, quantiles_of
from lockstep.collector.contract import metrics

TENSOR_SECONDS = metrics.TRAIN_COLLECTIVE.series(group="tp")
WAITED = "waited_seconds"
"""`details` of a finding about what steps of its span do not have: that all wait for it, in all."""
USUAL_STEP = "usual_step_seconds"
"""`details` of a finding that is about exchanges: its slowdown is that of such a step."""


def transfers(grid: Grid) -> FloatGrid:
    """(W,) seconds per step in collectives between nodes of the rank that spends the least there.

    All ranks are in step, by one group or another, so a slow transfer reaches every rank, and a
    slow rank every rank but itself: of its tensor-parallel peers' groups it is no member, and
    their least waits for it as well. So a window in which any rank is missing tells nothing: it
    may be the one that the others wait for.
    """
    return least(_between_nodes(grid, np.arange(len(grid.ranks))))


def of_those_who_told(grid: Grid, until: NDArray[np.int64]) -> tuple[FloatGrid, NDArray[np.int64]]:
    """(W,) the same of the ranks that told in some last windows, and the columns of these.

    Where others fell silent it is a bound: these may wait for one of them.
    """
    there = np.flatnonzero(np.isfinite(grid.time["collective"][until]).any(axis=0))
    return least(_between_nodes(grid, there)[:, there]), there


def exchanges(grid: Grid) -> FloatGrid | None:
    """(W, R) seconds per step in a rank's tensor-parallel group; None where nobody tells.

    Its last member to come waits for nobody, so what is `least` of a group is what it exchanges.
    """
    cells = grid.signals.get(TENSOR_SECONDS)
    return None if cells is None else cells * grid.time["wall"]


def _between_nodes(grid: Grid, told: NDArray[np.int64]) -> FloatGrid:
    """(W, R) collective seconds per step without exchanges inside a node, by those who told.

    Of a slow NVLink its group's last member waits for nobody, all others wait for the group, and
    so the least of everybody's collectives would be as long as between nodes.
    """
    seconds, within = grid.time["collective"].copy(), exchanges(grid)
    for columns in columns_by(grid, lambda info: (info.dp, info.pp)).values():
        nodes = {grid.ranks[column].node for column in columns.tolist()}
        if within is None or len(columns) == 1 or len(nodes) > 1:
            continue
        inside = least(within[:, np.intersect1d(columns, told)])
        # Who tells steps, and for a while not what they are made of, is taken to exchange as usual.
        inside = np.where(np.isfinite(inside), inside, median_of(inside))
        if np.isfinite(inside).any():
            seconds[:, columns] = np.maximum(seconds[:, columns] - inside[:, None], 0.0)
    return seconds


def least(cells: FloatGrid) -> FloatGrid:
    """(W,) the least of (W, R) cells; NaN where a rank is missing."""
    lowest: FloatGrid = np.min(cells, axis=1, initial=np.inf)
    return np.where(np.isfinite(lowest), lowest, np.nan)


def by_block(transfer: FloatGrid, groups: Blocks, usual: float) -> tuple[FloatGrid, FloatGrid]:
    """(B, 1) shares of a usual step, as medians and as means of blocks.

    A shaped link lets some steps pass at once, which medians jump over; a stall of one step counts
    in means, for a step at most.
    """
    middles = np.array([[median_of(transfer[members])] for members in groups.members])
    means = block_means(np.minimum(transfer, usual)[:, None], groups, spike=np.inf)
    return middles / usual, means / usual


def in_most(cells: FloatGrid) -> float:
    """The lower quartile: a slow link slows every transfer, a lack of processors only some."""
    return quantiles_of(cells[np.isfinite(cells)], 0.25)[0]
