"""Collectives that ranks stand in, by the sequences that each arrived at."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hangs.ended import NOTICED, Ended, last_said
from lockstep.analyzer.hangs.stopped import dead, inside_operations, stall_after
from lockstep.analyzer.shapes.run import FloatGrid, Grid, RankInfo
from lockstep.collector.contract import metrics

GROUP = re.compile(r'group="(\w+)"')
OPERATION = re.compile(r'op="([\w-]+)"')


@dataclass(frozen=True, slots=True)
class Standing:
    """How ranks stand in the groups of one kind; all else is of shape (R,).

    Attributes:
        kind: Of the groups.
        group: Number of each rank's group.
        sequence: The newest collective that any rank of it arrived at.
        waiting, missing: Is in that one, did not arrive there; nobody of groups that do not stand.
        seconds: For which any of its group is in it.
        since: Unix seconds when the rank began to wait; infinite = not for long.
    """

    kind: str
    group: NDArray[np.int64]
    sequence: FloatGrid
    waiting: NDArray[np.bool_]
    missing: NDArray[np.bool_]
    seconds: FloatGrid
    since: FloatGrid


@dataclass(frozen=True, slots=True)
class Stall:
    """One collective that some wait in; masks over ranks."""

    group: str
    sequence: int
    op: str | None
    waiting: NDArray[np.bool_]
    missing: NDArray[np.bool_]
    seconds: float


def standings(grid: Grid, how: Ended) -> Iterator[Standing]:
    """Groups in which some wait for long, or waited when somebody of them was gone."""
    never = np.full(len(grid.ranks), np.nan)
    noticed = how.word is not None or bool(last_said(grid, NOTICED).any())
    for key, enqueued in grid.last.items():
        if not key.startswith(metrics.TRAIN_ENQUEUED.name + "{"):
            continue
        kind = _label(GROUP, key) or "world"
        group, done = groups(grid.ranks, kind), grid.last.get(key.replace("enqueued", "completed"))
        newest = of_group(group, enqueued)
        waiting = (enqueued == newest) & ~((never if done is None else done) >= newest)
        inside = [(age, grid.last_time[it]) for it, age in inside_operations(grid)
                  if (_label(GROUP, it) or "world") == kind]  # fmt: skip
        seconds = of_group(
            group, np.fmax.reduce([never, *(np.where(waiting, age, np.nan) for age, _ in inside)])
        )
        since = np.fmin.reduce([never, *(seen - age for age, seen in inside)])
        long = seconds >= stall_after(grid)
        stands = long | (noticed & (of_group(group, dead(grid)) > 0))
        stands &= of_group(group, waiting) > 0
        yield Standing(
            kind, group, newest, waiting & stands, (enqueued < newest) & stands,
            np.nan_to_num(seconds), np.where(waiting & long & np.isfinite(since), since, np.inf),
        )  # fmt: skip


def told(
    grid: Grid, standing: Sequence[Standing], began: NDArray[np.bool_], hidden: NDArray[np.bool_]
) -> Stall | None:
    """The longest that somebody is missing from; who began it inside a collective is missing.

    Not those of whom only old sequences are known, unless they began it.
    """
    found: Stall | None = None
    for one in standing:
        missing = one.missing & (began | ~hidden)
        missing |= one.waiting & began & ~(of_group(one.group, missing) > 0)
        waiting = one.waiting & ~missing & (of_group(one.group, missing) > 0)
        if not waiting.any():
            continue
        longest = max(np.flatnonzero(waiting), key=lambda at: (one.seconds[at], one.sequence[at]))
        here = one.group == one.group[longest]
        seconds = float(one.seconds[longest])
        if found is None or seconds > found.seconds:
            ops = {float(np.nanmax(age[one.waiting & here], initial=0.0)): _label(OPERATION, it)
                   for it, age in inside_operations(grid)
                   if (_label(GROUP, it) or "world") == one.kind}  # fmt: skip
            found = Stall(
                one.kind, int(one.sequence[longest]), ops.get(seconds), waiting & here,
                missing & here, seconds,
            )  # fmt: skip
    return found


def groups(ranks: Sequence[RankInfo], kind: str) -> NDArray[np.int64]:
    """(R,) number of each rank's group of a kind: those that differ in that coordinate only."""
    other = {"dp": ("pp", "tp"), "pp": ("dp", "tp"), "tp": ("dp", "pp")}.get(kind, ())
    places = [[getattr(info, name) for name in other] for info in ranks]
    return np.unique(np.array(places), axis=0, return_inverse=True)[1].reshape(-1)


def of_group(group: NDArray[np.int64], values: NDArray[np.generic]) -> FloatGrid:
    """(R,) the highest value in each rank's group; NaN = of nobody."""
    highest = np.full(group.max(initial=-1) + 1, np.nan)
    np.fmax.at(highest, group, values.astype(float))
    return highest[group]


def _label(pattern: re.Pattern[str], key: str) -> str | None:
    found = pattern.search(key)
    return found.group(1) if found else None
