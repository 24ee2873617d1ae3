"""Transfer time: the part of a collective that is no wait; and who waits less than others."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lockstep.analyzer.shapes.run import Fact, Finding, FloatGrid, Grid
from lockstep.analyzer.shapes.waits import least
from lockstep.analyzer.stats.before_after import column_of, contrast
from lockstep.analyzer.stats.changepoint import (
    FALSE_ALARM,
    SPIKE,
    Blocks,
    block_means,
    column_medians,
    freedom_of,
)
from lockstep.analyzer.stats.peer_groups import columns_by, others_median
from lockstep.analyzer.stats.robust_stats import (
    mean,
    median,
    median_of,
    quantiles_of,
    shows,
    spread,
)
from lockstep.analyzer.stats.significance import TENTH_MORE, WAKES
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
    their least waits for it as well. So a window in which any rank is missing reports nothing: it
    may be the one that the others wait for.
    """
    return least(_between_nodes(grid, np.arange(len(grid.ranks))))


def of_those_who_told(grid: Grid, until: NDArray[np.int64]) -> tuple[FloatGrid, NDArray[np.int64]]:
    """(W,) the same of the ranks that reported in some last windows, and the columns of these.

    Where others fell silent it is a bound: these may wait for one of them.
    """
    there = np.flatnonzero(np.isfinite(grid.time["collective"][until]).any(axis=0))
    return least(_between_nodes(grid, there)[:, there]), there


def exchanges(grid: Grid) -> FloatGrid | None:
    """(W, R) seconds per step in a rank's tensor-parallel group; None where nobody reports.

    Its last member to come waits for nobody, so what is `least` of a group is what it exchanges.
    """
    cells = grid.signals.get(TENSOR_SECONDS)
    return None if cells is None else cells * grid.time["wall"]


def _between_nodes(grid: Grid, reporting: NDArray[np.int64]) -> FloatGrid:
    """(W, R) collective seconds per step without exchanges inside a node, by those who reported.

    Of a slow NVLink its group's last member waits for nobody, all others wait for the group, and
    so the least of everybody's collectives would be as long as between nodes.
    """
    seconds, within = grid.time["collective"].copy(), exchanges(grid)
    for columns in columns_by(grid, lambda info: (info.dp, info.pp)).values():
        nodes = {grid.ranks[column].node for column in columns.tolist()}
        if within is None or len(columns) == 1 or len(nodes) > 1:
            continue
        inside = least(within[:, np.intersect1d(columns, reporting)])
        # Who reports steps, and for a while not their parts, is taken to exchange as usual.
        inside = np.where(np.isfinite(inside), inside, median_of(inside))
        if np.isfinite(inside).any():
            seconds[:, columns] = np.maximum(seconds[:, columns] - inside[:, None], 0.0)
    return seconds


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


# Slow groups are sought in the phase `grad_sync` and not in all collectives: at the end of a step
# every rank has waited for the slowest group somewhere, so sums over a step are alike everywhere.
# Who waits inside a tensor-parallel group or a pipeline does so in forward and backward, before it.

FLOOR = TENTH_MORE
"""Of a usual step, by which transfers take longer, by medians and times alone: of a slow group, and
of a whole run."""
HEALTHY = 0.25
"""Share of the least growth of the slow groups, up to which another one is healthy: chosen, half of
what would show the same growth, so that each group is clearly one or the other."""


@dataclass(frozen=True, slots=True)
class SlowGroups:
    """Data-parallel groups over several nodes, as columns of the Grid.

    Attributes:
        slow: Groups whose transfers became longer.
        healthy: All others between nodes; theirs did not.
        seconds: The least growth of a slow group, seconds a step.
    """

    slow: tuple[NDArray[np.int64], ...]
    healthy: tuple[NDArray[np.int64], ...]
    seconds: float


def slow_groups(
    grid: Grid, inside: NDArray[np.int64], outside: NDArray[np.int64]
) -> SlowGroups | None:
    """The groups that are slow in some windows beside others that are not.

    None unless every group is clearly one or the other and both kinds exist, the slow ones are over
    several nodes, steps became longer, or it was only waiting that moved, and no rank's own time
    grew: a late rank of one stage holds up the groups of the others too.

    Args:
        grid: The run.
        inside: Windows in which transfers take longer.
        outside: The other windows.
    """
    every = columns_by(grid, lambda info: (info.pp, info.tp)).values()
    groups = [columns for columns in every if len(columns) > 1]
    if len(groups) < 2:
        return None
    wall = grid.time["wall"]
    usual = median_of(wall[outside])
    growth = np.empty(len(groups))
    lasting = np.empty(len(groups))
    for place, columns in enumerate(groups):
        series = least(grid.time["grad_sync"][:, columns])
        then = median_of(series[outside])
        growth[place] = median_of(series[inside]) - then
        lasting[place] = in_most(series[inside]) - then
    if not (np.isfinite(growth).all() and usual > 0):
        return None
    slow = growth >= FLOOR * usual
    if slow.all() or not slow.any():
        return None
    seconds = float(growth[slow].min())
    if (
        (lasting[slow] < growth[slow] / 2).any()
        or (np.abs(growth[~slow]) > HEALTHY * seconds).any()
        or not shows(median_of(wall[inside]) - usual, seconds)
        or shows(grown(grid, inside, outside), seconds)
    ):
        return None
    bad, good = ([groups[i] for i in np.flatnonzero(each)] for each in (slow, ~slow))
    between = [columns for columns in good if _over_nodes(grid, columns)]
    if not between or not all(_over_nodes(grid, columns) for columns in bad):
        return None
    return SlowGroups(tuple(bad), tuple(between), seconds)


def grown(
    grid: Grid,
    inside: NDArray[np.int64],
    outside: NDArray[np.int64],
    among: NDArray[np.int64] | None = None,
) -> float:
    """Seconds a step by which the own time of any rank is surely longer inside; by means.

    Of each rank that by which its rise is beyond what noise makes of any rank's (Student's quantile
    at FALSE_ALARM over the ranks), or nothing: of many ranks some rise by chance. The noise is what
    the middle rank's own time differs by from window to window (von Neumann, Annals of Mathematical
    Statistics 1941), which no rank that is slow now and then widens.

    A window counts for SPIKE medians at most: one long pause is not what others waited for all the
    time. Infinite where a rank's is not known on either side: it may be the one that they wait for.

    Args:
        grid: The run.
        inside: Windows in which transfers take longer.
        outside: The other windows.
        among: Columns of the ranks that can be waited for; None = all.
    """
    own = grid.time["own"] if among is None else grid.time["own"][:, among]
    with np.errstate(invalid="ignore"):
        own = np.minimum(own, SPIKE * column_medians(own))
    sides = own[inside], own[outside]
    now, then = (mean(side, axis=0) for side in sides)
    rises = now - then
    if not np.isfinite(rises).all():
        return float("inf")
    windows = own[np.sort(np.concatenate([inside, outside]))]
    turns = spread(np.diff(windows, axis=0), axis=0) / np.sqrt(2.0)
    noise = np.nan_to_num(median(turns, axis=0))
    error = noise * np.sqrt(sum(1.0 / np.isfinite(side).sum(axis=0) for side in sides))
    freedom = freedom_of(len(windows), len(rises))
    surely = rises + stdtrit(freedom, FALSE_ALARM / max(len(rises), 1)) * error
    return float(surely.max(initial=0.0))


def _over_nodes(grid: Grid, columns: NDArray[np.int64]) -> bool:
    return len({grid.ranks[column].node for column in columns.tolist()}) > 1


WAIT_QUERY = "collective_seconds by rank (of steps.parquet: wall_seconds - own_seconds)"


def waited_for(grid: Grid, finding: Finding) -> tuple[Fact, ...]:
    """How much less a slow rank waits than the others of its data-parallel group (same pp, tp).

    It confirms who is slow and accuses nobody: with more ranks than cores the last to arrive is the
    least waiter in only 69 to 79 % of the steps (measured; docs/method/waits.md).
    """
    column = column_of(grid, finding.rank)
    if finding.kind != "slow" or column is None:
        return ()
    mine = grid.ranks[column]
    group = [(info.pp, info.tp) == (mine.pp, mine.tp) for info in grid.ranks]
    waits = np.where(group, grid.time["collective"], np.nan)
    told = contrast(grid, finding, (others_median(waits, axis=1) - waits) / grid.time["wall"])
    if told is None or not told.during > 0:
        return ()
    if told.during - np.nan_to_num(told.before) < WAKES:
        return ()
    otherwise = "" if np.isnan(told.before) else f" ({round(told.before, 2) + 0.0:.0%} otherwise)"
    text = (
        f"rank {finding.rank} waits for its peers {told.during:.0%} of the step less than they wait"
        f"{otherwise}: they wait for it"
    )
    return (Fact(True, text, WAIT_QUERY),)
