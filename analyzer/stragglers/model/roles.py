"""Who does the same work as whom, where nobody but a foreign program knows it.

The ranks of one place of a layout do the same work in our own workloads. In somebody else's program
the layout may be assumed, and replicas may have work of their own: rollouts or evaluations on one
rank, a popular expert, a heavy stage of a pipeline made by hand. Log own time is m[w] + a[r] +
effects there, with a[r] of any size: a difference that stands from the first step on is the work's
or the part's, and times cannot tell which, unless the work is proven to be the same
(`equal_work`). A change is an effect as ever.

Ranks that share no group of ranks, by way of others neither, are no replicas, whatever their times.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.align.same_work import SAME
from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.stats.changepoint import MEDIAN_EFFICIENCY, column_medians
from lockstep.analyzer.stats.peer_groups import model_name, peer_groups
from lockstep.analyzer.stats.robust_stats import MOSTLY, median_of
from lockstep.analyzer.stats.significance import PARTS_AT_MOST, PARTS_ON_AVERAGE, STEPS_AT_LEAST
from lockstep.analyzer.stragglers.model.precision import Precision
from lockstep.collector.contract.robust import MAD_TO_SIGMA
from lockstep.collector.contract.words import EXTERNAL_PROGRAM, Phase

BY_ITS_PROGRAM = 0.21
"""Probability, before the hardware is asked, that a rank which differs since the start is slow and
not given more work: that of nodes with a stage of their own (detectors.stage_levels.BY_TIMES)."""
BY_EQUAL_WORK = 0.9
"""The same of one that is proven to do the same work as the others, chosen: of ten such proofs one
rests on what a program tells wrongly of itself."""
OF_ROLES = "by design, or slow since the start"
DOUBT = f"{OF_ROLES}: whether it does the same work is unknown"
"""Of such a rank, in words."""
BESIDES = f"{OF_ROLES}: parts differ, and it may do something besides the same work"
"""Of one of our own program, in words."""
HALF = f"{OF_ROLES}: half of its peers are as well, and which half is as it should be is unknown"
"""Of one of many, in words."""
SAME_WORK = "same_work"
"""Key of `Finding.details` of such a rank; whether its work is proven to be the others'."""
EQUAL = "by its collectives and by its reports of its steps it does the same work as they do"
"""Of one whose work is proven to be the same."""
ROLE = "role"
"""Key of `Finding.details` of such a rank; the number of its role."""
BY_CLOCK = "by_clock"
"""Key of `Finding.details`: whether its GPU's clock tells how slow it is, and not its own time."""
AGAIN = "again"
"""Key of `Finding.details`: whether it comes again and again, and does not stand."""
BEGINNING = 3
"""One of so many parts of a run, in which roles show: later a rank may have become slow."""
SURELY = 3.0
"""Standard errors (Shewhart 1931), by which levels of one role seldom differ by noise."""
MEMBERS = 15
"""Of a role at most, by whose middle it is known."""


def equal_roles_known(grid: Grid) -> bool:
    """Whether ranks at one place of the layout are known to do the same work."""
    if grid.meta.get("workload") == EXTERNAL_PROGRAM:
        return False
    return not any(info.external for info in grid.ranks)


def with_roles(grid: Grid) -> Grid:
    """The grid with the role of each rank: one for all of a place, where their work is known.

    Else ranks of a place have other roles where they share no group, and where their own times in
    the first part of the run are further apart than those of identical parts (PARTS_AT_MOST), with
    a gap between two roles (PARTS_ON_AVERAGE).
    """
    if equal_roles_known(grid):
        return grid
    usable = np.flatnonzero(~grid.masked & np.isfinite(grid.time["own"]).any(axis=1))
    steps = int((grid.to_step - grid.from_step)[usable].sum())
    seen = steps >= BEGINNING * STEPS_AT_LEAST and len(usable) >= BEGINNING
    own = np.log(grid.time["own"][np.array_split(usable, BEGINNING)[0]])
    role = np.zeros(len(grid.ranks), dtype=np.int64)
    for columns in peer_groups(grid).values():
        number = 0
        for part in _sharing(grid, columns):
            for mine in _roles(own, part) if seen else [part.tolist()]:
                role[mine] = number
                number += 1
    ranks = (replace(info, role=int(role[column])) for column, info in enumerate(grid.ranks))
    return replace(grid, ranks=tuple(ranks))


def of_standing(
    grid: Grid, columns: Iterable[int], *, half: bool = False
) -> tuple[Mapping[str, Any], str]:
    """Details of a finding of ranks that differ since the start, and in words why they may.

    How likely they are slow, before the hardware is asked, and whether their work is proven.

    Args:
        grid: The run's windows.
        columns: Of these ranks.
        half: Whether half of their peers differ as well.
    """
    if half:
        return {"place_confidence": BY_ITS_PROGRAM, SAME_WORK: False}, HALF
    proven = all(equal_work(grid, column) for column in columns)
    chance = BY_EQUAL_WORK if proven else BY_ITS_PROGRAM
    why = EQUAL if proven else BESIDES if equal_roles_known(grid) else DOUBT
    return {"place_confidence": chance, SAME_WORK: proven}, why


def roles_differ(grid: Grid) -> bool:
    """Whether ranks of one place were seen to do different work."""
    return any(info.role for info in grid.ranks)


def for_roles(grid: Grid, precision: Precision) -> Precision:
    """What windows can show: where work differs by role it may change as well, as an expert's load.

    Then a change must be larger than identical parts differ, as what stands since the start.
    """
    if not roles_differ(grid):
        return precision
    return replace(
        precision,
        floor=max(precision.floor, PARTS_AT_MOST),
        node_floor=max(precision.node_floor, PARTS_AT_MOST),
        transient_floor=max(precision.transient_floor, PARTS_AT_MOST),
    )


def crept(rest: FloatGrid, onset: int, effect: float, *, width: int) -> bool:
    """Whether a rise came little by little, as when work is shared out by what is in it.

    A place that breaks is slower from one step to the next: by half of the effect at least between
    a stretch before the onset and one after it, with half a stretch left out on each side for what
    the onset may be off by.

    Args:
        rest: (n,) log own time over the peers'.
        onset: Where it rose.
        effect: By how much, in all.
        width: Windows of a stretch.
    """
    gap = width // 2
    before, after = rest[max(onset - gap - width, 0) : max(onset - gap, 1)], rest[onset + gap :]
    return median_of(after[:width]) - median_of(before) < effect / 2


def _sharing(grid: Grid, columns: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The columns that share a group, by way of others too; all of them where one tells none."""
    groups: dict[int, frozenset[str]] = {}
    members: dict[str, list[int]] = {}
    for column in columns.tolist():
        exchange = grid.ranks[column].exchange
        if exchange is None:
            return [columns]
        groups[column] = exchange.groups
        for group in exchange.groups:
            members.setdefault(group, []).append(column)
    sharing: list[NDArray[np.int64]] = []
    while groups:
        mine, open_ = [], [next(iter(groups))]
        while open_:
            column = open_.pop()
            if column in groups:
                mine.append(column)
                open_ += (one for group in groups.pop(column) for one in members.pop(group, ()))
        sharing.append(np.array(sorted(mine), dtype=np.int64))
    return sharing


def _roles(own: FloatGrid, columns: NDArray[np.int64]) -> list[list[int]]:
    """Columns of each role of a peer group, the one with the least own time first.

    Args:
        own: (n, R) log own time of the first part of the run.
        columns: Of the group.
    """
    level = column_medians(own)
    known = columns[np.isfinite(level[columns])]
    roles: list[list[int]] = []
    for column in known[np.argsort(level[known], kind="stable")].tolist():
        alike = (one for one in roles if not _apart(own[:, column], _middle(own, one)))
        mine = next(alike, None)
        if mine is None:
            roles.append([column])
        else:
            mine.append(column)
    ends = [median_of(level[one]) for one in (roles[0], roles[-1])] if roles else [0.0, 0.0]
    return roles if ends[1] - ends[0] >= PARTS_AT_MOST else [known.tolist()]


def _middle(own: FloatGrid, role: Sequence[int]) -> FloatGrid:
    return column_medians(own[:, role[:MEMBERS]].T)


def _apart(first: FloatGrid, second: FloatGrid) -> bool:
    """Whether two series of log own time are further apart than parts are on average."""
    over = (first - second)[np.isfinite(first - second)]
    if not over.size:
        return False
    level = median_of(over)
    error = MEDIAN_EFFICIENCY * MAD_TO_SIGMA * median_of(np.abs(over - level)) / np.sqrt(over.size)
    return bool(abs(level) - SURELY * error >= PARTS_ON_AVERAGE)


def standing(
    grid: Grid, least: float = PARTS_AT_MOST
) -> Iterator[tuple[int, float, float, NDArray[np.int64]]]:
    """Column, log own time over the other ranks', its error, and those, of who always was slower.

    In each of the parts of the run, by half of the whole at least. Nobody where work is known.
    """
    usable = np.flatnonzero(~grid.masked & np.isfinite(grid.time["own"]).any(axis=1))
    if equal_roles_known(grid) or len(usable) < BEGINNING or len(grid.ranks) < 2:
        return
    own = np.log(grid.time["own"][usable])
    for column in np.flatnonzero(np.isfinite(own).any(axis=0)).tolist():
        peers = _others(grid, column)
        if not len(peers):
            continue
        over = own[:, column] - column_medians(own[:, peers].T)
        parts = [median_of(part) for part in np.array_split(over, BEGINNING)]
        level = median_of(over)
        if level >= least and min(parts) >= level / 2:
            error = MEDIAN_EFFICIENCY * MAD_TO_SIGMA * median_of(np.abs(over - level))
            yield column, level, error / float(np.sqrt(np.isfinite(over).sum())), peers


def _others(grid: Grid, column: int) -> NDArray[np.int64]:
    """The ranks of other roles at a rank's place; of who is alone at its place those elsewhere.

    All on its model of GPU. What all ranks of a place have in common is its stage's work.
    """
    mine = grid.ranks[column]
    there = [
        (other, info)
        for other, info in enumerate(grid.ranks)
        if other != column and model_name(info.model) == model_name(mine.model)
    ]
    mates = [each for each in there if (each[1].pp, each[1].tp) == (mine.pp, mine.tp)]
    others = [other for other, info in mates or there if not mates or info.role != mine.role]
    return np.array(others, dtype=np.int64)


NO_TRAINING = (Phase.DATA, Phase.CHECKPOINT, Phase.EVAL, Phase.OTHER)
"""Phases in which a program may do what it likes: rollouts, evaluation, logging."""


def equal_work(grid: Grid, column: int) -> bool:
    """Whether a rank is proven to do the work of the others at its place; False = nobody knows.

    Then what it takes longer since the first step is likelier its own slowness than the design of
    its program, though no hardware says so.

    Equal collectives alone prove nothing: who makes rollouts, evaluates or logs takes part in the
    very same all-reduces. Nor do equal tokens: a popular expert computes those of other ranks. All
    of these must hold together, of all ranks at its place on its model of GPU:

    * they are in the same groups and do nothing in them but average gradients, which is the same
      number of all-reduces of the same sizes on every rank, or torch would fail. So no rank hands
      another one work: no tokens for an expert, no activations, no rollouts;
    * the work that each reports (FLOPs or tokens of a step) is the same in every window, and steps
      vary by less than parts do, or what is reported would not be what they take;
    * it is longer in the phase `forward` and in the rest of own time by most of what it is longer
      in all: a slow part lengthens both, while work that nobody tells lies in one of them. All that
      it spends in phases without training would not be most of the excess, so it is not that;
    * more than half of them are quicker by as much in `forward`: of two, or two halves, either may
      be normal.

    What is reported wrongly (work that is extra in forward and backward, as hooks that log both)
    passes, which is why it is a probability and no certainty (BY_EQUAL_WORK).

    Args:
        grid: The run's windows.
        column: Of the rank.
    """
    mates = _mates(grid, column)
    windows = np.flatnonzero(~grid.masked & np.isfinite(grid.time["own"][:, column]))
    if len(mates) < 2 or not len(windows) or not _only_average_together(grid, column, mates):
        return False
    own, forward = (grid.time[name][windows] for name in ("own", Phase.FORWARD))
    level = _longer(own, column, mates)
    quicker = column_medians(_logs(forward)[:, [column]] - _logs(forward)[:, mates])
    excess = own[:, column] - column_medians(own[:, mates].T)
    elsewhere = sum(
        (grid.time[phase][windows, column] for phase in NO_TRAINING), np.zeros(len(windows))
    )
    return bool(
        level >= PARTS_ON_AVERAGE
        and _same_work_told(grid, windows, np.append(mates, column))
        and _steady(grid, windows, column)
        and 2 * int((quicker >= MOSTLY * level).sum()) > len(mates) + 1
        and _longer(forward, column, mates) >= MOSTLY * level
        and _longer(own - forward, column, mates) >= MOSTLY * level
        and median_of(elsewhere) <= (1.0 - MOSTLY) * median_of(excess)
    )


def _mates(grid: Grid, column: int) -> NDArray[np.int64]:
    """The others at its place, whatever their role, on its model of GPU."""
    mine = grid.ranks[column]
    place = (mine.pp, mine.tp, model_name(mine.model))
    return np.array([
        other for other, info in enumerate(grid.ranks)
        if other != column and (info.pp, info.tp, model_name(info.model)) == place
    ], dtype=np.int64)  # fmt: skip


def _only_average_together(grid: Grid, column: int, mates: NDArray[np.int64]) -> bool:
    mine = grid.ranks[column].exchange
    if mine is None or not mine.only_averages or mine.peers or not mine.groups:
        return False
    return all(grid.ranks[mate].exchange == mine for mate in mates.tolist())


def _same_work_told(grid: Grid, windows: NDArray[np.int64], columns: NDArray[np.int64]) -> bool:
    work = grid.work_by_rank
    if work is None:
        return False
    cells = work[np.ix_(windows, columns)]
    # Of a window in which a rank did not answer nothing is compared.
    answered = np.isfinite(grid.time["own"][np.ix_(windows, columns)])
    known = cells[answered]
    if not (np.isfinite(known).all() and (known > 0).all()):
        return False
    logs = np.where(answered, np.log(np.where(answered, cells, 1.0)), np.nan)
    return bool(np.nanmax(np.nanmax(logs, axis=1) - np.nanmin(logs, axis=1)) <= SAME)


def _steady(grid: Grid, windows: NDArray[np.int64], column: int) -> bool:
    """Whether its steps vary by less than parts differ; windows of several steps hide it."""
    own = np.log(grid.time["own"][windows, column])
    steps = median_of((grid.to_step - grid.from_step)[windows].astype(float))
    sigma = MAD_TO_SIGMA * median_of(np.abs(own - median_of(own)))
    return bool(sigma * np.sqrt(steps) <= PARTS_ON_AVERAGE)


def _longer(seconds: FloatGrid, column: int, mates: NDArray[np.int64]) -> float:
    """The middle of the log of its seconds over the others'; NaN where one took none."""
    log = _logs(seconds)
    if not np.isfinite(log[:, [column, *mates.tolist()]]).any(axis=0).all():
        return float("nan")
    return median_of(log[:, column] - column_medians(log[:, mates].T))


def _logs(seconds: FloatGrid) -> FloatGrid:
    logs: FloatGrid = np.log(np.where(seconds > 0, seconds, np.nan))
    return logs
