"""Own time without what is noise, or known already: the grids in which slow ranks are searched.

Without the wait for a processor, with steady computing, by quick steps, and as if nobody whom the
search has found were slow.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.align.grid import GARBAGE
from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid
from lockstep.analyzer.stats.before_after import column_of
from lockstep.analyzer.stats.changepoint import (
    BLOCK_STEPS_AT_LEAST,
    SAME_ABOVE,
    block_means,
    blocks,
    column_medians,
)
from lockstep.analyzer.stats.peer_groups import peer_groups
from lockstep.analyzer.stats.processor import run_queue_seconds
from lockstep.analyzer.stats.robust_stats import mean_of, median, median_of
from lockstep.analyzer.stats.significance import FLOOR, WAKES_BY_BOUND
from lockstep.analyzer.stragglers.model.minimum_detectable_effect import smallest_noticed
from lockstep.analyzer.stragglers.model.precision import Precision
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import Phase

QUOTA = metrics.RANK_THROTTLED.series()


def without_run_queue(grid: Grid) -> Grid | None:
    """The grid with own time without what a rank waited for a processor.

    Where ranks share processors (unpaced runs, hosts with other work) most of the spread of own
    time is the scheduler's. The kernel counts the time in which a task was ready to run and had no
    processor (/proc/PID/schedstat, second field; the kernel's Documentation/scheduler/
    sched-stats.rst), so it is taken off with the coefficient 1. What is left is what a rank does
    itself.

    None where it makes no difference: not known of all ranks, less of each one's own time than the
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
    if not _spread_of_own_time(grid, own - waited) < _spread_of_own_time(grid, own):
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
    computing, groups = np.isfinite(host), blocks(grid)
    if not groups.members or not computing.any():
        return None
    levels = block_means(np.where(computing, host, np.nan), groups, spike=np.inf)
    more = levels - np.median(host[computing])
    with np.errstate(invalid="ignore"):
        if not np.nanmax(more / usual, initial=0.0) >= WAKES_BY_BOUND:
            return None
    steady = usual + host
    return replace(grid, time={**grid.time, "own": np.where(steady > 0, steady, np.nan)})


def _spread_of_own_time(grid: Grid, own: FloatGrid) -> float:
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


BLIND = 1.5
"""Chosen: means tell enough where they would show a rank in half of a run that is slower by less;
as much as a run that is called healthy must."""
QUICK = 0.25
"""Quantile of the steps of a block, chosen: of five the second, as one may lack work."""


def with_quick_steps(grid: Grid, precision: Precision) -> Grid | None:
    """The grid with own time that is in each block of steps what its quick ones take.

    What a crowded host takes from a rank comes in few long pieces. A mean of steps holds them, and
    so does its noise. A fault slows the quick steps too, which these pieces did not reach.

    None where means of steps tell enough, and of windows so long that they are means themselves.

    Args:
        grid: The run's windows.
        precision: What these can show.
    """
    groups = blocks(grid, least=precision.block_steps)
    if not groups.members or min(map(len, groups.members)) < BLOCK_STEPS_AT_LEAST:
        return None
    noticed = smallest_noticed(grid, precision)
    if noticed is None or noticed <= BLIND:
        return None
    own = np.full_like(grid.time["own"], np.nan)
    for members in groups.members:
        own[members] = _quick(grid.time["own"][members])
    return replace(grid, time={**grid.time, "own": own})


def plainly_longer(
    grid: Grid, columns: NDArray[np.int64], peers: NDArray[np.int64], inside: NDArray[np.bool_]
) -> bool:
    """Whether nearly every step of some ranks is longer than the same step of nearly every peer.

    The probability of superiority (McGraw and Wong, Psychological Bulletin 111, 1992), which no
    single long step moves. On a crowded host the middle step of one rank is twice as long for some
    minutes, and still shorter than that of many a peer (measured).

    Args:
        grid: The run's windows.
        columns: The ranks.
        peers: Theirs.
        inside: (W,) windows in which to look.
    """
    own = grid.time["own"][inside & ~grid.masked]
    mine, theirs = own[:, columns, None], own[:, None, np.setdiff1d(peers, columns)]
    known = np.isfinite(mine) & np.isfinite(theirs)
    return bool(known.any() and float((mine > theirs)[known].mean()) >= SAME_ABOVE)


def _quick(cells: FloatGrid) -> FloatGrid:
    """(R,) the QUICK quantile of (W, R); NaN where under half answered."""
    known = np.isfinite(cells).sum(axis=0)
    ordered = np.sort(np.where(np.isfinite(cells), cells, np.inf), axis=0)
    place = np.minimum((QUICK * known).astype(np.int64), len(cells) - 1)
    quick = np.take_along_axis(ordered, place[None, :], axis=0)[0]
    return np.where(2 * known >= len(cells), quick, np.nan)


WAITS = ("collective", "grad_sync")
"""Times of `Grid.time` that hold waiting for others."""


def without_slow(grid: Grid, findings: Sequence[Finding]) -> Grid | None:
    """The grid with own times as if nobody were slow, and without the waiting for it.

    Who waits for a slow rank spends in collectives what that rank takes longer, so a slow network
    beside it hides: it is not known whether the others wait for the rank or for the network.

    Own time of an accused rank is in its span less by what it is longer than its peers', as it
    usually is beside them. Everybody else waits so much less, a rank that is slow itself by what
    the other one is slower; and nobody less than when nobody is slow. None where nobody is, or
    somebody all the time: what the others would wait is not known then.

    Args:
        grid: The run's windows.
        findings: Those of kind `slow` are of ranks whose own time grew.
    """
    usable = ~grid.masked
    slow = [
        (column, finding)
        for finding in findings
        if finding.kind == "slow" and (column := column_of(grid, finding.rank)) is not None
    ]
    own, some = grid.time["own"], np.zeros(len(usable), dtype=bool)
    others = np.setdiff1d(np.arange(len(grid.ranks)), [column for column, _ in slow])
    longer: FloatGrid = np.zeros_like(own)
    for column, finding in slow:
        stage = [c for c in others if grid.ranks[c].pp == grid.ranks[column].pp]
        inside = finding.inside(grid) & usable
        ratio = own[:, column] / median(own[:, stage or others], 1)
        usual = median_of(ratio[usable & ~inside]) if (usable & ~inside).any() else np.nan
        excess = np.where(inside, own[:, column] * (1.0 - usual / ratio), 0.0)
        longer[:, column] = np.maximum(longer[:, column], np.nan_to_num(excess))
        some |= inside
    if not slow or not (usable & ~some).any():
        return None
    waited = np.maximum(longer.max(axis=1, keepdims=True) - longer, 0.0)
    time = {**grid.time, "own": own - longer}
    for name in WAITS:
        usually = column_medians(grid.time[name][usable & ~some])
        time[name] = grid.time[name] - np.clip(grid.time[name] - usually, 0.0, waited)
    return replace(grid, time=time)
