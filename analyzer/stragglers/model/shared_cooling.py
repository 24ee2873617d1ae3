"""GPUs of all nodes that become hotter at a time: the room is, or what cools it, and no node.

In a hot room the GPUs with the least margin are held back first, and each stands out from its peers
by far more than noise. How far heat holds a GPU back has one side and one scale, as an exponential
does: who is slower than the largest of so many would be by chance is so by more than the room.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import SHARED_COOLING, Finding, FloatGrid, Grid, Rejected
from lockstep.analyzer.shapes.wording import NAMED, listed
from lockstep.analyzer.stats.before_after import SM_CLOCK, column_of
from lockstep.analyzer.stats.changepoint import FALSE_ALARM, column_medians
from lockstep.analyzer.stats.robust_stats import mean, median_of, shows
from lockstep.analyzer.stats.significance import RECORDED, STEPS_AT_LEAST
from lockstep.collector.contract import metrics

TEMPERATURE = metrics.GPU_TEMPERATURE.series(sensor="gpu")
HOTTER = 10.0
"""Degrees Celsius by which a room is another one, chosen: within its recommended range (18 to 27,
ASHRAE TC 9.9) a room moves by less."""
DEGREE = 1.0
"""NVML tells whole degrees (nvmlDeviceGetTemperature)."""
WHOLE_RUN = ("change",)


def without_shared_cooling(grid: Grid, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, of which those of GPUs that a hot room holds back are one `structure`.

    Of a node those count that are slower by as much as half of the slowest of its ranks.
    """
    if any(key not in grid.signals for key in (TEMPERATURE, SM_CLOCK)):
        return tuple(findings)
    places: dict[Hashable, list[Finding]] = {}
    for one in findings:
        if one.kind == "slow":
            whole = one.details.get("part") or one.details.get("node")
            places.setdefault((one.rank, one.first) if whole is None else whole, []).append(one)
    shared = [one for some in places.values() if _by_room(grid, some) for one in some]
    if not shared:
        return tuple(findings)
    whole = [one for one in findings if one.kind in WHOLE_RUN and _overlaps(grid, one, shared)]
    gone = {id(one) for one in (*shared, *whole)}
    left = tuple(one for one in findings if id(one) not in gone)
    return (*left, _structure(grid, shared, whole))


def let_go(findings: Sequence[Finding], named: Sequence[int | None]) -> Iterator[Rejected]:
    """Who would be slow by itself, and is in a hot room; but for those named for another reason."""
    for one in findings:
        for rank in one.details.get("heated", ())[:NAMED]:
            if rank not in named:
                yield Rejected(rank, "its GPU is held back by heat, in a room that became hotter")


def _by_room(grid: Grid, some: Sequence[Finding]) -> bool:
    most = max(np.log(one.slowdown) for one in some)
    plain = [one for one in some if shows(float(np.log(one.slowdown)), float(most))]
    return all(_held_by_room(grid, one) for one in plain)


def _held_by_room(grid: Grid, one: Finding) -> bool:
    """Whether a GPU computes slower at a lower clock, is hot, and no more than all others became.

    A GPU that its own cooling fails is hotter than the others by more than it was, or before them;
    one that is held back by power is cooler than they are. How much slower the middle rank became
    is no excess.
    """
    column = column_of(grid, one.rank)
    during, before = _sides(grid, one)
    if column is None or not during.any() or not before.any():
        return False
    steps = np.where(during, grid.to_step - grid.from_step, 0)
    onset = during & (np.cumsum(steps) - steps < STEPS_AT_LEAST)
    heat = grid.signals[TEMPERATURE]
    now, at_onset, usual = (column_medians(heat[side]) for side in (during, onset, before))
    elsewhere = np.array([info.node != grid.ranks[column].node for info in grid.ranks])
    common, soon = (median_of((hot - usual)[elsewhere]) for hot in (now, at_onset))
    cooler, own_rise = median_of(now) - now[column], now[column] - usual[column]
    # Where heat holds back most of them, all are as hot, whatever they were.
    more = min(own_rise - common, -cooler)
    if not (soon >= HOTTER and more <= DEGREE and cooler <= DEGREE):
        return False
    slow, fast = (column_medians(grid.signals[SM_CLOCK][side])[column] for side in (during, before))
    slower, faster = (np.log(mean(grid.time["own"][side], 0)) for side in (during, before))
    excess = slower - faster - median_of(slower - faster)
    if not shows(float(np.log(fast / slow)), float(excess[column])):
        return False
    held = np.delete(excess, column)
    held = held[held >= RECORDED]
    return bool(
        excess[column] <= held.sum() / max(len(held), 1) * np.log((1 + len(held)) / FALSE_ALARM)
    )


def _sides(grid: Grid, one: Finding) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(W,) windows of a finding, and those before it."""
    usable = ~grid.masked
    return usable & one.inside(grid), usable & (np.arange(len(grid.start)) < one.first)


def _overlaps(grid: Grid, one: Finding, shared: Sequence[Finding]) -> bool:
    return any((one.inside(grid) & each.inside(grid)).any() for each in shared)


def _structure(grid: Grid, shared: Sequence[Finding], whole: Sequence[Finding]) -> Finding:
    """What GPUs share, as one finding; how much longer steps are as the whole run's tells."""
    first = min(one.first for one in shared)
    slowest = sorted(shared, key=lambda one: -one.slowdown)
    ranks = list(dict.fromkeys(one.rank for one in slowest if one.rank is not None))
    during, before = _sides(grid, replace(shared[0], first=first, last=None))
    heat: FloatGrid = grid.signals[TEMPERATURE]
    rise = median_of(column_medians(heat[during]) - column_medians(heat[before]))
    wall = column_medians(grid.time["wall"].T)
    ratio = max(float(np.nanmean(wall[during]) / np.nanmean(wall[before])), 1.0)
    text = (
        f"the GPUs of all nodes became hotter by {rise:.0f} °C, and heat holds back from step"
        f" {grid.from_step[first]} those with the least margin, most of all rank"
        f"{'s' if len(ranks) > 1 else ''} {listed(ranks[:NAMED])}: the room is hot, and no node;"
        " look at what cools it"
    )
    return Finding(
        detector="effects", kind="structure", rank=None, first=first, last=None,
        slowdown=whole[0].slowdown if whole else ratio,
        interval=whole[0].interval if whole else (ratio, ratio),
        score=slowest[0].score, share={}, text=text,
        details={"uniform": False, "kind": SHARED_COOLING, "heated": ranks},
    )  # fmt: skip
