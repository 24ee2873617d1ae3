"""That the others wait for a slow rank: all leave a collective at once, so the last waits least."""

import numpy as np

from lockstep.analyzer.shapes.run import Fact, Finding, Grid
from lockstep.analyzer.stats.before_after import column_of, contrast
from lockstep.analyzer.stats.others import others_median
from lockstep.analyzer.stats.significance import WAKES

QUERY = "collective_seconds by rank (of steps.parquet: wall_seconds - own_seconds)"


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
    return (Fact(True, text, QUERY),)
