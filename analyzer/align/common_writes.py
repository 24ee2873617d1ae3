"""Checkpoints and evaluations that all ranks make, in windows between two scrapes.

Steps with one are masked by their tag. A window of several steps has none, and nodes are scraped at
different moments: the same pause is in one node's window and in another's next, where it looks like
a node that is slow now and then.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.shapes.windows import MAX_GAP
from lockstep.analyzer.stats.changepoint import MEDIAN_EFFICIENCY, column_medians
from lockstep.analyzer.stats.coverage import KNOWN_AT_LEAST
from lockstep.analyzer.stats.robust_stats import NEARLY_ALL, NOTHING, WITHIN, mean, median_of
from lockstep.collector.contract.robust import MAD_TO_SIGMA
from lockstep.collector.contract.words import Phase

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
WRITER = 0.1
"""Share of the longest, from which a rank is one that writes: where rank 0 writes for all, it has
no peers and nobody accuses it. So much of the usual write is one as well."""
SHARES = np.linspace(0.0, 1.0, 41)
"""Of the phase that are a rank's own, as they are tried."""
MEAN_OF_MEDIAN = MAD_TO_SIGMA * float(np.sqrt(2 / np.pi))
"""Mean absolute deviation of a Gaussian, of its median absolute deviation."""
KNOWN = 0.1
"""The largest standard error of that share: of one in ten more or less nobody is named."""
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
        apart = bool(phase in JUDGED_APART and paused.any())
        mostly = apart and often(grid, paused)
        fitted = _by_amount(grid, paused) if mostly else None
        if fitted is not None:
            written = np.clip(_bare(grid) - fitted.usual, 0.0, paused)
            more[WRITTEN] = np.where(fitted.writes, written, 0.0 * written)
            own = own - more[WRITTEN]
            continue
        if apart:
            written = _its_own(grid, paused)
            more[WRITTEN] = np.full_like(written, np.nan) if mostly else written
        if common := _common(grid, paused):
            design = paused if apart else paused * _by_design(grid, paused, common)
            windows = np.concatenate(common)
            own = own.copy()
            own[windows] -= design[windows]
            if apart:
                # How long it waited in the phase is not known, so what is left is not known either.
                own[windows] = np.where(more[WRITTEN] >= paused, own, np.nan)[windows]
    if own is not grid.time["own"]:
        more["own"] = np.where(own > 0, own, np.nan)
    return replace(grid, time={**grid.time, **more}) if more else grid


def often(grid: Grid, paused: FloatGrid) -> bool:
    """Whether so many windows of most ranks hold some that too few of the others are known."""
    told = np.isfinite(grid.time["own"]) & ~grid.masked[:, None]
    if not told.any() or not np.median(grid.to_step - grid.from_step) > 1:
        return False
    share = mean(np.where(told, paused > 0, np.nan), 0)
    return median_of(share) > 1.0 - KNOWN_AT_LEAST


class _Fitted(NamedTuple):
    """(R,) own time beside a phase, and whether any of the phase is a rank's own."""

    usual: FloatGrid
    writes: NDArray[np.bool_]


def _by_amount(grid: Grid, paused: FloatGrid) -> _Fitted | None:
    """By how own time goes with the time in the phase from window to window.

    Of least absolute deviations. None where the windows hold too nearly the same of it to report
    the two apart, of one rank in ten or more.
    """
    own = np.where(grid.masked[:, None], np.nan, _bare(grid))
    amount = np.where(np.isfinite(own), paused, np.nan)
    levels, left = np.empty((2, len(SHARES), own.shape[1]))
    for number, each in enumerate(SHARES):
        rest = own - each * amount
        levels[number] = column_medians(rest)
        left[number] = mean(np.abs(rest - levels[number]), 0)
    best = np.where(np.isfinite(left), left, np.inf).argmin(axis=0)
    usual, share = levels[best, np.arange(len(own.T))], SHARES[best]
    # What such a fit errs by depends on the middle of what is left and not on its tail (Koenker and
    # Bassett, Econometrica 1978): one long stall makes nothing else of its rank unknown.
    noise = MEAN_OF_MEDIAN * column_medians(np.abs(own - share * amount - usual))
    apart = np.sqrt(mean((amount - mean(amount, 0)) ** 2, 0) * np.isfinite(own).sum(axis=0))
    known = (noise <= KNOWN * apart) | ~(amount > 0).any(axis=0)
    told = np.isfinite(own).any(axis=0)
    if known[told].mean() < NEARLY_ALL:
        return None
    writes = share >= np.maximum(WRITER, WITHIN * noise / np.maximum(apart, NOTHING))
    return _Fitted(np.where(known, usual, np.nan), writes)


def _bare(grid: Grid) -> FloatGrid:
    """(W, R) own time per step without evaluations."""
    return grid.time["own"] - np.nan_to_num(grid.time[Phase.EVAL])


def _its_own(grid: Grid, paused: FloatGrid) -> FloatGrid:
    """(W, R) seconds of a phase that are a rank's own: who has written waits for the last to.

    They are no more than what its own time is longer by than in the windows around without the
    phase, evaluations apart; as far as that is no noise. NaN where nobody reported the phase, or
    where no window shows what the rank takes without it.
    """
    bare = _bare(grid)
    own = np.where((paused == 0) & ~grid.masked[:, None], bare, np.nan)
    around = pd.DataFrame(own).rolling(AROUND, center=True, min_periods=1).median()
    usual = around.ffill().bfill()
    sigma = MAD_TO_SIGMA * (pd.DataFrame(own) - usual).abs().median()
    most = np.maximum(bare - (usual - NOISE * sigma).to_numpy(), 0.0)
    timed = np.isfinite(grid.time["own"]).any(axis=0)
    written = np.where(np.isfinite(most) | timed, np.minimum(paused, most), paused)
    more = np.where(paused > 0, bare - usual.to_numpy(), np.nan)
    written = np.where(_only_waits(more, sigma.to_numpy()), 0.0, written)
    return np.where(np.isfinite(grid.time[Phase.CHECKPOINT]), written, np.nan)


def _only_waits(more: FloatGrid, sigma: FloatGrid) -> NDArray[np.bool_]:
    """(R,) who takes no longer by itself where it is in a phase than else, beyond noise.

    Args:
        more: (W, R) by how much, in the windows with the phase.
        sigma: (R,) deviation of the others.
    """
    windows = np.isfinite(more).sum(axis=0)
    error = WITHIN * MEDIAN_EFFICIENCY * np.nan_to_num(sigma) / np.sqrt(np.maximum(windows, 1))
    return np.asarray((windows > 0) & (column_medians(more) <= error))


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
    """(R,) share of each rank's pauses that the middle rank makes, of those it reported whole."""
    told = np.isfinite(grid.time["own"])
    seconds = paused * (grid.to_step - grid.from_step)[:, None]
    each = np.array([np.where(told[i].all(axis=0), seconds[i].sum(axis=0), 0.0) for i in common])
    middle = [float(np.median(some[some > 0])) if (some > 0).any() else 0.0 for some in each]
    usual = np.where(each > 0, np.array(middle)[:, None], 0.0).sum(axis=0)
    mine = each.sum(axis=0)
    share: FloatGrid = np.divide(usual, mine, out=np.ones_like(mine), where=mine > 0)
    return np.minimum(share, 1.0)
