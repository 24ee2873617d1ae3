"""The whole run against its own past: did every step become slower, and all ranks alike?"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analyzer.model.precision import WINDOWS, Precision
from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.changepoint import (
    Blocks,
    Shift,
    block_means,
    blocks,
    clearest_spans,
    column_medians,
    sustained,
)
from analyzer.slowness.coverage import known_in, unseen_ranks
from analyzer.slowness.robust_stats import interval_95, shows
from analyzer.slowness.significance import FLOOR


def change(grid: Grid, precision: Precision = WINDOWS) -> Sequence[Finding]:
    """One finding: `structure` if all ranks slowed alike (no node's fault), else `change`.

    By step time, the median over ranks of wall time, in log ratio to its own past; divided by the
    predicted work of the steps where ranks tell it (docs/method/change.md): twice the tokens in
    twice the time is no slowdown. Alike they slowed only where the own time of every rank is known,
    before and since, and shows it: a rank of which it is not may hold all others back.

    Args:
        grid: The run's windows.
        precision: What these can tell.
    """
    groups, seen = blocks(grid, "wall", precision.block_steps), grid
    least = max(precision.transient_floor, FLOOR)
    grid = per_work(grid)
    wall = np.log(block_means(grid.time["wall"], groups))
    step = column_medians(wall.T)[:, None]
    for shift in clearest_spans(step, noise=precision.noise):
        steps, ended = (shift.last - shift.first) * groups.steps, shift.last < len(groups)
        if (
            shift.score < shift.critical
            or shift.effect < least
            or not precision.long_enough(steps, len(groups) * groups.steps, ended=ended)
            or not sustained(step, shift)
            or not _in_most_steps(grid, groups, shift)
            or not _longer(seen, groups, shift, least)
        ):
            continue
        own = _changes(np.log(block_means(grid.time["own"], groups)), shift)
        known = bool(np.isfinite(own).all()) and not unseen_ranks(seen)
        uniform = known and shows(own.min(), shift.effect)
        first = groups.first(shift.first)
        low, ratio, high = interval_95(shift.effect, shift.error)
        how = (
            "all ranks by the same ratio: not a node's fault; look at code, configuration,"
            " storage or the network core"
            if uniform
            else "not all ranks alike"
            if known
            else "and nobody knows of every rank whether it slowed like the others"
        )
        return (
            Finding(
                detector="change",
                kind="structure" if uniform else "change",
                rank=None,
                first=first,
                last=groups.stop(shift.last) if ended else None,
                slowdown=ratio,
                interval=(float(low), float(high)),
                score=shift.score,
                share={},
                text=f"the run's steps took {ratio:.2f}x from step {grid.from_step[first]}, {how}",
                details={"uniform": uniform, "known": known},
            ),
        )
    return ()


def per_work(grid: Grid) -> Grid:
    """The grid with times per usual work of a step; as they are where nobody told it."""
    if grid.work is None or not np.isfinite(grid.work[~grid.masked]).any():
        return grid
    share = grid.work / np.nanmedian(grid.work[~grid.masked])
    share = np.where(share > 0, share, 1.0)[:, None]
    told = {name: grid.time[name] / share for name in ("wall", "own")}
    return replace(grid, time={**grid.time, **told})


def _longer(grid: Grid, groups: Blocks, shift: Shift, least: float) -> bool:
    """Whether steps took longer as they are: less work is not done faster in proportion."""
    wall = np.log(column_medians(block_means(grid.time["wall"], groups).T))
    inside = np.zeros(len(wall), dtype=bool)
    inside[shift.first : shift.last] = True
    return bool(np.nanmedian(wall[inside]) - np.nanmedian(wall[~inside]) >= least)


def _in_most_steps(grid: Grid, groups: Blocks, shift: Shift) -> bool:
    """Whether single steps changed, not only the means of blocks with a few stalls."""
    inside = np.concatenate(groups.members[shift.first : shift.last])
    steps = np.log(column_medians(grid.time["wall"][inside].T))
    return bool(np.nanmedian(steps) > shift.inside - shift.effect / 2)


def _changes(own: FloatGrid, shift: Shift) -> FloatGrid:
    """(R,) change of log own time between the span and the rest; NaN where half is not known."""
    inside = np.zeros(len(own), dtype=bool)
    inside[shift.first : shift.last] = True
    changes = column_medians(own[inside]) - column_medians(own[~inside])
    known = known_in(own, inside) & known_in(own, ~inside)
    return np.where(known, changes, np.nan)
