"""Checkpoints and evaluations that all ranks make, in windows between two scrapes.

Steps with one are masked by their tag. A window of several steps has none, and nodes are scraped at
different moments: the same pause is in one node's window and in another's next, where it looks like
a node that is slow now and then.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzer.readers.windows import MAX_GAP
from analyzer.run import FloatGrid, Grid
from collector.contract.robust import MAD_TO_SIGMA
from collector.contract.words import Phase

BY_DESIGN = (Phase.CHECKPOINT, Phase.EVAL)
JUDGED_APART = (Phase.CHECKPOINT,)
"""Who takes longer for these is found by a detector of its own."""
WRITTEN = "written"
"""Of `Grid.time`: the seconds of a checkpoint that are a rank's own."""
AROUND = 21
"""Windows whose middle is what a rank usually takes there, chosen: a slowdown is longer."""
NOISE = 2.0
"""Deviations below what is usual that are noise: 95 % of a Gaussian's."""
PAUSES = 0.05
"""Share of its own time that a rank pauses for, at least, in a window with a pause."""
MOST = 0.5
"""Share of the ranks that do: what fewer do is not by design."""
LONGEST = 2 * MAX_GAP
"""Windows of a pause that failed scrapes spread: it lies in one scrape interval or in two, and what
is longer than MAX_GAP is not known."""


def without_common_writes(grid: Grid) -> Grid:
    """The Grid whose own time lacks these phases in every pause that most ranks make.

    A pause is all windows beside each other in which anybody is in the phase: a scrape that failed
    spreads it over as many windows as it left out. Where somebody is in it for longer than that, it
    is the windows in which most are at once, and those beside them. Who evaluates for longer than
    the middle rank keeps the rest; `detectors.checkpoints` compares the writes.
    """
    own = grid.time["own"]
    more = {}
    for phase in BY_DESIGN:
        paused = np.nan_to_num(grid.time[phase])
        if phase in JUDGED_APART and paused.any():
            more[WRITTEN] = _its_own(grid, paused)
        if common := _common(grid, paused):
            design = paused if phase in JUDGED_APART else paused * _by_design(grid, paused, common)
            windows = np.concatenate(common)
            own = own.copy()
            own[windows] -= design[windows]
            if phase in JUDGED_APART:
                # How long it waited in the phase is not told, and so what is left is not, either.
                own[windows] = np.where(more[WRITTEN] < paused, np.nan, own)[windows]
    if own is not grid.time["own"]:
        more["own"] = np.where(own > 0, own, np.nan)
    return replace(grid, time={**grid.time, **more}) if more else grid


def _its_own(grid: Grid, paused: FloatGrid) -> FloatGrid:
    """(W, R) seconds of a phase that are a rank's own: who has written waits for the last to.

    They are no more than what its own time is longer by than in the windows around without the
    phase; as far as that is no noise. NaN where nobody told of the phase.
    """
    own = np.where((paused == 0) & ~grid.masked[:, None], grid.time["own"], np.nan)
    around = pd.DataFrame(own).rolling(AROUND, center=True, min_periods=1).median()
    usual = around.ffill().bfill()
    sigma = MAD_TO_SIGMA * (pd.DataFrame(own) - usual).abs().median()
    most = np.maximum(grid.time["own"] - (usual - NOISE * sigma).to_numpy(), 0.0)
    written = np.where(np.isfinite(most), np.minimum(paused, most), paused)
    return np.where(np.isfinite(grid.time[Phase.CHECKPOINT]), written, np.nan)


def _common(grid: Grid, paused: FloatGrid) -> list[NDArray[np.int64]]:
    """Windows of each pause that most ranks make; those of one step have their tag."""
    own, several = grid.time["own"], grid.to_step - grid.from_step > 1
    told = np.isfinite(own) & several[:, None]
    with np.errstate(invalid="ignore"):
        pauses = (paused >= PAUSES * own) & told
    windows = np.flatnonzero(((paused > 0) & told).any(axis=1))
    each = np.split(windows, np.flatnonzero(np.diff(windows) > 1) + 1)
    at_once = pauses.sum(axis=1) >= MOST * np.maximum(told.sum(axis=1), 1)
    beside = at_once.copy()
    beside[1:] |= at_once[:-1]
    beside[:-1] |= at_once[1:]
    found = []
    for one in each:
        if len(one) > LONGEST:
            some = one[beside[one]]
            found += np.split(some, np.flatnonzero(np.diff(some) > 1) + 1)
        elif pauses[one].any(axis=0).sum() >= MOST * max(told[one].any(axis=0).sum(), 1):
            found.append(one)
    return [one for one in found if one.size]


def _by_design(grid: Grid, paused: FloatGrid, common: Sequence[NDArray[np.int64]]) -> FloatGrid:
    """(R,) share of each rank's pauses that the middle rank makes; of those that it told whole."""
    told = np.isfinite(grid.time["own"])
    seconds = paused * (grid.to_step - grid.from_step)[:, None]
    each = np.array([np.where(told[i].all(axis=0), seconds[i].sum(axis=0), 0.0) for i in common])
    middle = [float(np.median(some[some > 0])) if (some > 0).any() else 0.0 for some in each]
    usual = np.where(each > 0, np.array(middle)[:, None], 0.0).sum(axis=0)
    mine = each.sum(axis=0)
    share: FloatGrid = np.divide(usual, mine, out=np.ones_like(mine), where=mine > 0)
    return np.minimum(share, 1.0)
