"""Plain z-score: own time more than three standard deviations above the mean of all ranks.

With n ranks no z-score exceeds (n - 1) / sqrt(n) (Samuelson, JASA 1968), 2.47 for 8 ranks: in
small runs the rule cannot speak.
"""

from collections.abc import Sequence

import numpy as np

from lockstep.analyzer.shapes.run import Grid
from lockstep.evaluation.baselines.lasting import lasting

MOST = 3.0
SECONDS = 60.0
"""For so long; a single step above it is noise (1 in 741 by chance)."""


def zscore(grid: Grid) -> Sequence[int]:
    """Ranks whose z-score stays above three."""
    own = grid.time["own"][~grid.masked]
    there = np.isfinite(own).all(axis=1)
    own = own[there]
    if own.shape[0] == 0 or own.shape[1] < 2:
        return ()
    deviation = np.maximum(own.std(axis=1, keepdims=True), np.finfo(float).tiny)
    above = (own - own.mean(axis=1, keepdims=True)) / deviation > MOST
    windows = np.flatnonzero(~grid.masked)[there]
    return lasting(grid, above, grid.end[windows] - grid.start[windows], SECONDS)
