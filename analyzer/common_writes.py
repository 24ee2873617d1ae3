"""Checkpoints that all ranks write, in windows between two scrapes.

Steps with a checkpoint are masked by their tag. A window of several steps has none, and nodes are
scraped at different moments: the same write is in one node's window and in another's next, where it
looks like a node that is slow now and then.
"""

from dataclasses import replace

import numpy as np

from analyzer.run import Grid
from collector.contract.words import Phase

WRITES = 0.05
"""Share of its own time that a rank writes for, at least, in a window with a checkpoint."""
MOST = 0.5
"""Share of the ranks that do: what fewer do is not by design."""


def without_common_writes(grid: Grid) -> Grid:
    """The Grid whose own time lacks the checkpoint phase where most ranks write, or did just now.

    `detectors.checkpoints` compares the writes themselves.
    """
    own, written = grid.time["own"], np.nan_to_num(grid.time[Phase.CHECKPOINT])
    several = (grid.to_step - grid.from_step) > 1
    told = np.isfinite(own)
    with np.errstate(invalid="ignore"):
        writes = (written >= WRITES * own) & told
    common = several & (writes.sum(axis=1) >= MOST * np.maximum(told.sum(axis=1), 1))
    near = common.copy()
    near[1:] |= common[:-1]
    near[:-1] |= common[1:]
    near &= several
    if not near.any():
        return grid
    less = np.where(near[:, None], own - written, own)
    return replace(grid, time={**grid.time, "own": np.where(less > 0, less, np.nan)})
