"""The whole run against its own past: did every step become slower, and all ranks alike?"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import OBSERVED, Finding, FloatGrid, Grid
from lockstep.analyzer.stats.changepoint import (
    SAME_ABOVE,
    Blocks,
    Shift,
    autocorrelation_factor,
    block_means,
    blocks,
    clearest_spans,
    column_medians,
    median_error,
    sustained,
)
from lockstep.analyzer.stats.coverage import known_in, unseen_ranks
from lockstep.analyzer.stats.robust_stats import interval_95, median_of, shows
from lockstep.analyzer.stats.significance import FLOOR
from lockstep.analyzer.stragglers.model.precision import WINDOWS, Precision
from lockstep.collector.contract.robust import MAD_TO_SIGMA


def change(grid: Grid, precision: Precision = WINDOWS) -> Sequence[Finding]:
    """One finding: `structure` if all ranks slowed alike (no node's fault), else `change`.

    By step time, the median over ranks of wall time, or by the middle of the ranks' own times; each
    in log ratio to its own past, and divided by the predicted work of the steps where ranks
    tell it (docs/method/change.md): twice the tokens in twice the time is no slowdown. Alike they
    slowed only where the own time of every rank is known, before and since, and shows it: a rank of
    which it is not may hold all others back.

    Args:
        grid: The run's windows.
        precision: What these can show.
    """
    groups, unseen = blocks(grid, "wall", precision.block_steps), unseen_ranks(grid)
    # Steps as they are: less work is not done faster in proportion.
    raw = column_medians(np.log(block_means(grid.time["wall"], groups)).T)
    grid = per_work(grid)
    wall, own = (np.log(block_means(grid.time[name], groups)) for name in ("wall", "own"))
    step, level = column_medians(wall.T), column_medians(own)

    for shift in _risen(step, np.log(grid.time["wall"]), groups, precision):
        changes = _changes(own, shift)
        known = not unseen and bool(np.isfinite(changes).all())
        if _rise(raw, shift)[0] >= _least(precision):
            uniform = known and shows(changes.min(), shift.effect)
            return (_finding(grid, groups, shift, uniform=uniform, known=known),)

    # Steps wait for the latest rank and for the network, so all of their stalls are in them. Where
    # these hide a change, the middle of own times may tell it, and has to account for what steps
    # took longer: else something else made them slow.
    middle, over_level = column_medians((own - level).T), np.log(grid.time["own"]) - level
    for shift in _risen(middle, over_level, groups, precision):
        effect, error = _rise(step, shift)
        longer = min(effect, _rise(raw, shift)[0]) >= FLOOR
        if longer and shows(shift.effect, effect) and not unseen and _alike(own, shift):
            slower = replace(shift, effect=effect, error=error)
            return (_finding(grid, groups, slower, uniform=True, known=True),)
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
        "all ranks by the same ratio: not a node's fault"
        if uniform
        else "not all ranks alike"
        if known
        else "and whether every rank slowed like the others is unknown"
    )
    observed = f"the run's steps took {ratio:.2f}x from step {grid.from_step[first]}, {how}"
    advice = "; look at code, configuration, storage or the network core" if uniform else ""
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
        text=observed + advice,
        details={"uniform": uniform, "known": known, OBSERVED: observed},
    )


def per_work(grid: Grid) -> Grid:
    """The grid with times per usual work of a step; as they are where that is not known."""
    if grid.work is None or not np.isfinite(grid.work[~grid.masked]).any():
        return grid
    share = grid.work / np.nanmedian(grid.work[~grid.masked])
    share = np.where(share > 0, share, 1.0)[:, None]
    by_work = {name: grid.time[name] / share for name in ("wall", "own")}
    return replace(grid, time={**grid.time, **by_work})


def _rise(series: FloatGrid, shift: Shift) -> tuple[float, float]:
    """How much higher (B,) is in a span that is known already, and the standard error of that.

    NaN where nothing is known of a side.
    """
    inside = _inside(len(series), shift)
    sides = [each[np.isfinite(each)] for each in (series[inside], series[~inside])]
    if not all(each.size for each in sides):
        return np.nan, np.nan
    levels = [median_of(each) for each in sides]
    rests = [each - level for each, level in zip(sides, levels, strict=True)]
    errors = [
        median_error(MAD_TO_SIGMA * median_of(np.abs(rest)), len(rest))
        * autocorrelation_factor(rest)
        for rest in rests
    ]
    return levels[0] - levels[1], math.hypot(*errors)


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
    positions = np.arange(count)
    within: NDArray[np.bool_] = (positions >= shift.first) & (positions < shift.last)
    return within
