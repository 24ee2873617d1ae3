"""Checkpoints and evaluations that all ranks make, in windows between two scrapes.

Steps with one are masked by their tag. A window of several steps has none, and nodes are scraped at
different moments: the same pause is in one node's window and in another's next, where it looks like
a node that is slow now and then.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analyzer.run import FloatGrid, Grid
from collector.contract.words import Phase

BY_DESIGN = (Phase.CHECKPOINT, Phase.EVAL)
JUDGED_APART = (Phase.CHECKPOINT,)
"""Who takes longer for these is found by a detector of its own."""
PAUSES = 0.05
"""Share of its own time that a rank pauses for, at least, in a window with a pause."""
MOST = 0.5
"""Share of the ranks that do: what fewer do is not by design."""


def without_common_writes(grid: Grid) -> Grid:
    """The Grid whose own time lacks these phases where most ranks are in them, or were just now.

    Who evaluates for longer than the middle rank keeps the rest, spread over those windows;
    `detectors.checkpoints` compares the writes.
    """
    own = grid.time["own"]
    pauses = [np.nan_to_num(grid.time[phase]) for phase in BY_DESIGN]
    common = [_common(grid, paused) for paused in pauses]
    if not np.any(common):
        return grid
    for phase, paused, windows in zip(BY_DESIGN, pauses, common, strict=True):
        design = paused if phase in JUDGED_APART else _by_design(paused, windows)
        own = np.where(windows[:, None], own - design, own)
    return replace(grid, time={**grid.time, "own": np.where(own > 0, own, np.nan)})


def _by_design(paused: FloatGrid, windows: NDArray[np.bool_]) -> FloatGrid:
    """(W, R) of each rank's pauses what the middle rank pauses for over all of them."""
    total = paused[windows].sum(axis=0)
    middle = float(np.median(total[total > 0])) if (total > 0).any() else 0.0
    share: FloatGrid = np.minimum(middle / np.maximum(total, 1e-12), 1.0)
    return paused * share


def _common(grid: Grid, paused: FloatGrid) -> NDArray[np.bool_]:
    """(W,) windows of several steps in which most ranks pause, and those beside them."""
    several, told = (grid.to_step - grid.from_step) > 1, np.isfinite(grid.time["own"])
    with np.errstate(invalid="ignore"):
        pauses = (paused >= PAUSES * grid.time["own"]) & told
    common = several & (pauses.sum(axis=1) >= MOST * np.maximum(told.sum(axis=1), 1))
    near = common.copy()
    near[1:] |= common[:-1]
    near[:-1] |= common[1:]
    return np.asarray(near & several)
