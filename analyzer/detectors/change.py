"""The whole run against its own past: did every step become slower, and all ranks alike?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analyzer.model.precision import WINDOWS, Precision
from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.changepoint import (
    MEDIAN_EFFICIENCY,
    SAME_ABOVE,
    Blocks,
    Shift,
    block_means,
    blocks,
    clearest_spans,
    column_medians,
    sustained,
)
from analyzer.slowness.coverage import known_in, unseen_ranks
from analyzer.slowness.robust_stats import interval_95, median_of, shows
from analyzer.slowness.significance import FLOOR
from collector.contract.robust import MAD_TO_SIGMA


def change(grid: Grid, precision: Precision = WINDOWS) -> Sequence[Finding]:
    """One finding: `structure` if all ranks slowed alike (no node's fault), else `change`.

    By the middle of the ranks' own times, and by step time, the median over ranks of wall time;
    each in log ratio to its own past, and divided by the predicted work of the steps where ranks
    tell it (docs/method/change.md): twice the tokens in twice the time is no slowdown. Alike they
    slowed only where the own time of every rank is known, before and since, and shows it: a rank of
    which it is not may hold all others back.

    Args:
        grid: The run's windows.
        precision: What these can tell.
    """
    groups, unseen = blocks(grid, "wall", precision.block_steps), unseen_ranks(grid)
    # Steps as they are: less work is not done faster in proportion.
    raw = column_medians(np.log(block_means(grid.time["wall"], groups)).T)
    grid = per_work(grid)
    wall, own = (np.log(block_means(grid.time[name], groups)) for name in ("wall", "own"))
    step, level = column_medians(wall.T), column_medians(own)

    # The middle of own times first: a step waits for the latest rank, so all ranks' stalls are in
    # it, and pauses of all; what they compute alike has neither.
    usual = np.log(grid.time["own"]) - level
    for shift in _risen(column_medians((own - level).T), usual, groups, precision):
        if not unseen and _alike(own, shift) and _in_steps(raw, shift).effect >= FLOOR:
            slower = _in_steps(step, shift)
            return (_finding(grid, groups, slower, uniform=True, known=True),)
    for shift in _risen(step, np.log(grid.time["wall"]), groups, precision):
        known = not unseen and bool(np.isfinite(_changes(own, shift)).all())
        if _in_steps(raw, shift).effect >= _least(precision):
            uniform = known and _alike(own, shift)
            return (_finding(grid, groups, shift, uniform=uniform, known=known),)
    return ()


def _risen(
    series: FloatGrid, cells: FloatGrid, groups: Blocks, precision: Precision
) -> Iterator[Shift]:
    """Spans in which a series of blocks (B,), and most of the windows (W, R) of it, are higher."""
    for shift in clearest_spans(series[:, None], noise=precision.noise):
        steps, ended = (shift.last - shift.first) * groups.steps, shift.last < len(groups)
        if (
            shift.score >= shift.critical
            and shift.effect >= _least(precision)
            and precision.long_enough(steps, len(groups) * groups.steps, ended=ended)
            and sustained(series[:, None], shift)
            and _in_most_steps(cells, groups, shift)
        ):
            yield shift


def _least(precision: Precision) -> float:
    return max(precision.transient_floor, FLOOR)


def _alike(own: FloatGrid, shift: Shift) -> bool:
    """Whether it is known of every rank that it slowed as the run did, and in the same blocks.

    Ranks that slow one after another have each a reason of its own.
    """
    changes, inside = _changes(own, shift), _inside(len(own), shift)
    if not (np.isfinite(changes).all() and shows(changes.min(), shift.effect)):
        return False
    high = own > column_medians(own[~inside]) + changes / 2
    as_run = np.where(np.isfinite(own), high == inside[:, None], np.nan)
    shares = [np.nanmean(as_run[side], axis=0) for side in (inside, ~inside)]
    return bool(np.min(shares) >= SAME_ABOVE)


def _finding(grid: Grid, groups: Blocks, shift: Shift, *, uniform: bool, known: bool) -> Finding:
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
    return Finding(
        detector="change",
        kind="structure" if uniform else "change",
        rank=None,
        first=first,
        last=groups.stop(shift.last) if shift.last < len(groups) else None,
        slowdown=ratio,
        interval=(float(low), float(high)),
        score=shift.score,
        share={},
        text=f"the run's steps took {ratio:.2f}x from step {grid.from_step[first]}, {how}",
        details={"uniform": uniform, "known": known},
    )


def per_work(grid: Grid) -> Grid:
    """The grid with times per usual work of a step; as they are where nobody told it."""
    if grid.work is None or not np.isfinite(grid.work[~grid.masked]).any():
        return grid
    share = grid.work / np.nanmedian(grid.work[~grid.masked])
    share = np.where(share > 0, share, 1.0)[:, None]
    told = {name: grid.time[name] / share for name in ("wall", "own")}
    return replace(grid, time={**grid.time, **told})


def _in_steps(step: FloatGrid, shift: Shift) -> Shift:
    """How much longer steps (B,) took in a span that is known already."""
    inside = _inside(len(step), shift)
    sides = [each[np.isfinite(each)] for each in (step[inside], step[~inside])]
    levels = [median_of(each) for each in sides]
    errors = [
        MEDIAN_EFFICIENCY * MAD_TO_SIGMA * median_of(np.abs(each - level)) / np.sqrt(len(each))
        for each, level in zip(sides, levels, strict=True)
    ]
    return replace(shift, effect=levels[0] - levels[1], error=float(np.hypot(*errors)))


def _in_most_steps(cells: FloatGrid, groups: Blocks, shift: Shift) -> bool:
    """Whether single steps changed, not only the means of blocks with a few stalls."""
    inside = np.concatenate(groups.members[shift.first : shift.last])
    steps = column_medians(cells[inside].T)
    return bool(np.nanmedian(steps) > shift.inside - shift.effect / 2)


def _changes(own: FloatGrid, shift: Shift) -> FloatGrid:
    """(R,) change of log own time between the span and the rest; NaN where half is not known."""
    inside = _inside(len(own), shift)
    changes = column_medians(own[inside]) - column_medians(own[~inside])
    known = known_in(own, inside) & known_in(own, ~inside)
    return np.where(known, changes, np.nan)


def _inside(count: int, shift: Shift) -> NDArray[np.bool_]:
    place = np.arange(count)
    within: NDArray[np.bool_] = (place >= shift.first) & (place < shift.last)
    return within
