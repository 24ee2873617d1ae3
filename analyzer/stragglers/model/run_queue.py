"""The part of own time in which a rank was ready to run and had no processor: known, and no noise.

Where ranks share processors (unpaced runs, hosts with other work) most of the spread of own time is
the scheduler's. The kernel counts it (/proc/PID/schedstat, second field; the kernel's
Documentation/scheduler/sched-stats.rst), so it is taken off with the coefficient 1: what is left is
what a rank does itself.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.align.grid import GARBAGE
from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.stats.changepoint import block_means, blocks, column_medians
from lockstep.analyzer.stats.peer_groups import peer_groups
from lockstep.analyzer.stats.processor import run_queue_seconds
from lockstep.analyzer.stats.robust_stats import mean_of, median_of
from lockstep.analyzer.stats.significance import FLOOR, WAKES_BY_BOUND
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import Phase

QUOTA = metrics.RANK_THROTTLED.series()


def without_run_queue(grid: Grid) -> Grid | None:
    """The grid with the own time that a rank was not ready to run in.

    None where it makes no difference: not told of all ranks, less of each one's own time than the
    smallest slowdown that is recorded, or no part of it. Who waits for a GPU, or an emulated
    device, meanwhile loses nothing: then own time is steadier with the waiting than without.

    In which its own quota held a rank back stays in own time: no other process is the reason, and
    the kernel counts it as waiting too, as a throttled task stays enqueued (kernel/sched/fair.c).
    """
    waited = run_queue_seconds(grid)
    if waited is None:
        return None
    own = grid.time["own"]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = column_medians((waited / own)[~grid.masked])
    if not np.nanmax(share, initial=0.0) >= np.expm1(FLOOR):
        return None
    if not _spread(grid, own - waited) < _spread(grid, own):
        return None
    held = np.nan_to_num(grid.signals.get(QUOTA, np.zeros(()))) * grid.time["wall"]
    left = own - np.maximum(waited - held, 0.0)
    return replace(grid, time={**grid.time, "own": np.where(left > 0, left, np.nan)})


def with_steady_computing(grid: Grid) -> Grid | None:
    """The grid with own time in which computing takes what it usually does; the rest alone moves.

    The noise of computing, most of all where ranks share processors, hides what loading data and
    collecting garbage take: of these nothing is a wait for others. None where nobody's take so much
    more than everybody's, in any block of steps, that it would be recorded of a node.

    What is usual is the same for all who do the same work: how their computing differs is not
    looked at here, and would have no noise.
    """
    own = np.where(grid.masked[:, None], np.nan, grid.time["own"])
    host = np.minimum(np.nansum([grid.time[name] for name in (Phase.DATA, GARBAGE)], axis=0), own)
    usual = column_medians(own - host)
    for columns in peer_groups(grid).values():
        usual[columns] = median_of(usual[columns])
    told, groups = np.isfinite(host), blocks(grid)
    if not groups.members or not told.any():
        return None
    levels = block_means(np.where(told, host, np.nan), groups, spike=np.inf)
    more = levels - np.median(host[told])
    with np.errstate(invalid="ignore"):
        if not np.nanmax(more / usual, initial=0.0) >= WAKES_BY_BOUND:
            return None
    steady = usual + host
    return replace(grid, time={**grid.time, "own": np.where(steady > 0, steady, np.nan)})


def _spread(grid: Grid, own: FloatGrid) -> float:
    """How far log own time of a block is from that of the next; the middle rank's median."""
    with np.errstate(invalid="ignore", divide="ignore"):
        told = np.log(block_means(np.where(own > 0, own, np.nan), blocks(grid)))
    return median_of(column_medians(np.abs(np.diff(told, axis=0))))


def is_run_queue(
    grid: Grid, columns: NDArray[np.int64], peers: NDArray[np.int64], inside: NDArray[np.bool_]
) -> bool:
    """Whether most of what some ranks have in excess of their peers is waiting for a processor.

    Args:
        grid: The run's windows, own time with the waiting.
        columns: The ranks.
        peers: Theirs.
        inside: (W,) windows of the excess; of all windows it is against the peers alone.
    """
    waited = run_queue_seconds(grid)
    if waited is None:
        return True

    def excess(cells: FloatGrid) -> float:
        over = column_medians(cells[:, columns].T) - column_medians(cells[:, peers].T)
        outside = ~inside & ~grid.masked
        before = mean_of(over[outside]) if outside.any() else 0.0
        return mean_of(over[inside & ~grid.masked]) - before

    return 2 * excess(waited) >= excess(grid.time["own"])
