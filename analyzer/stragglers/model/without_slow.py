"""The run as it would be if the ranks that were found slow were not: what is left to explain.

Who waits for a slow rank spends in collectives what that rank takes longer, so a slow network
beside it hides: nobody could tell whether the others wait for the rank or for the network.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid
from lockstep.analyzer.stats.before_after import column_of
from lockstep.analyzer.stats.changepoint import column_medians
from lockstep.analyzer.stats.robust_stats import median, median_of

WAITS = ("collective", "grad_sync")
"""Times of `Grid.time` that hold waiting for others."""


def without_slow(grid: Grid, findings: Sequence[Finding]) -> Grid | None:
    """The grid with own times as if nobody were slow, and without the waiting for it.

    Own time of an accused rank is in its span less by what it is longer than its peers', as it
    usually is beside them. Everybody else waits so much less, a rank that is slow itself by what
    the other one is slower; and nobody less than when nobody is slow. None where nobody is, or
    somebody all the time: what the others would wait is not known then.

    Args:
        grid: The run's windows.
        findings: Those of kind `slow` are of ranks whose own time grew.
    """
    told = ~grid.masked
    slow = [
        (column, one)
        for one in findings
        if one.kind == "slow" and (column := column_of(grid, one.rank)) is not None
    ]
    own, some = grid.time["own"], np.zeros(len(told), dtype=bool)
    others = np.setdiff1d(np.arange(len(grid.ranks)), [column for column, _ in slow])
    longer: FloatGrid = np.zeros_like(own)
    for column, one in slow:
        stage = [c for c in others if grid.ranks[c].pp == grid.ranks[column].pp]
        inside = one.inside(grid) & told
        ratio = own[:, column] / median(own[:, stage or others], 1)
        usual = median_of(ratio[told & ~inside]) if (told & ~inside).any() else np.nan
        excess = np.where(inside, own[:, column] * (1.0 - usual / ratio), 0.0)
        longer[:, column] = np.maximum(longer[:, column], np.nan_to_num(excess))
        some |= inside
    if not slow or not (told & ~some).any():
        return None
    waited = np.maximum(longer.max(axis=1, keepdims=True) - longer, 0.0)
    time = {**grid.time, "own": own - longer}
    for name in WAITS:
        usually = column_medians(grid.time[name][told & ~some])
        time[name] = grid.time[name] - np.clip(grid.time[name] - usually, 0.0, waited)
    return replace(grid, time=time)
