"""Transfer time of each data-parallel group: which groups became slow, which stayed as they were.

The phase `grad_sync` and not all collectives: in the end of a step every rank has waited for the
slowest group somewhere, so sums over a step are alike in all groups. Who waits inside a
tensor-parallel group or a pipeline does so in forward and backward, before this phase.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lockstep.analyzer.shapes.run import Grid
from lockstep.analyzer.stats.changepoint import FALSE_ALARM, SPIKE, column_medians, freedom_of
from lockstep.analyzer.stats.peer_groups import columns_by
from lockstep.analyzer.stats.robust_stats import mean, median, median_of, shows, spread
from lockstep.analyzer.stats.significance import TENTH_MORE
from lockstep.analyzer.stats.transfers import in_most, least

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
