"""Who stopped a run: missing from a collective that others are in, or the first that was gone."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Finding, Grid, RankInfo
from analyzer.slowness.ended import (
    FINISHED,
    INTERRUPTED,
    NOTICED,
    SILENT,
    Ended,
    all_told,
    died_silently,
    ended,
    how_it_went,
    last_said,
    unclean,
)
from analyzer.slowness.stopped import (
    READ_SECONDS,
    SCRAPE_SECONDS,
    STALL_SECONDS,
    alive_until,
    dead,
    died_first,
    frozen,
    furthest_behind,
    opened_since_last_step,
    out_of_sight,
    silent,
    stall_after,
    stuck_inside,
    under_way,
    unseen_then,
)
from collector.contract import metrics
from collector.contract.words import RankState

UNSURE = 0.6
"""Certainty of a rank of which even this is not known: whether it waits itself. Below the 0.7 from
which the sentence calls a confidence fair."""
GROUP = re.compile(r'group="(\w+)"')
OPERATION = re.compile(r'op="([\w-]+)"')


@dataclass(frozen=True, slots=True)
class _Stall:
    """One collective that some wait in; masks over ranks.

    `since` is when the first of them began to wait, unix seconds; NaN = nobody knows.
    """

    group: str
    sequence: int
    op: str | None
    waiting: NDArray[np.bool_]
    missing: NDArray[np.bool_]
    seconds: float
    since: float


@dataclass(frozen=True, slots=True)
class _Roots:
    """(R,) who began it; unless `told`, it cannot be told which of them."""

    ranks: NDArray[np.bool_]
    told: bool


class Hang:
    """The launcher's word, what gone ranks said last, and sequence numbers of the last scrapes.

    A run that finished has no hang. One that its user ended may: then the stall tells of it, and
    nothing of how ranks went after the stall, for that was the user's doing.
    """

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """One finding of kind `hang` a rank that began it; its `state` is dead, frozen or stuck.

        Where it cannot be told who of several did, each has a finding, and `details["certainty"]`,
        by which its confidence is to be multiplied, is low.
        """
        how = ended(grid)
        if how.word == FINISHED:
            return ()
        seen, by_user = grid, how.word == INTERRUPTED
        grid = replace(grid, down_since=None) if by_user else grid
        stalls = [stall for stall in _stalls(grid) if stall.missing.any()]
        stall = max(stalls, key=lambda stall: (stall.seconds, stall.sequence), default=None)
        if by_user and (stall is None or _ended_by(seen, stall.since + stall_after(seen))):
            return ()
        roots = _began(grid, how, stall)
        if roots is None:
            return ()
        found = [_finding(grid, how, stall, roots, int(c)) for c in np.flatnonzero(roots.ranks)]
        return _of_nodes(grid, found)


def _of_nodes(grid: Grid, found: Sequence[Finding]) -> Sequence[Finding]:
    """The findings; those of all ranks of a node that stopped alike name it in `details["node"]`.

    Which of several ranks began it matters less where they are of one node. Nobody where that were
    every node.
    """
    members: dict[str, set[int]] = {}
    for column in np.flatnonzero(np.isfinite(grid.time["own"]).any(axis=0)).tolist():
        members.setdefault(grid.ranks[column].node, set()).add(grid.ranks[column].rank)
    alike: dict[str, list[Finding]] = {}
    for node, ranks in members.items():
        mine = [one for one in found if one.rank in ranks]
        states = {one.details["state"] for one in mine}
        if 2 <= len(ranks) == len(mine) and len(states) == 1:
            alike[node] = mine
    if len(alike) == len(members):
        return found
    told: dict[int | None, dict[str, Any]] = {}
    for node, mine in alike.items():
        sure = min(sum(float(one.details["certainty"]) for one in mine), 1.0)
        told |= {one.rank: {"node": node, "certainty": sure} for one in mine}
    return [replace(one, details={**one.details, **told.get(one.rank, {})}) for one in found]


def _began(grid: Grid, how: Ended, stall: _Stall | None) -> _Roots | None:
    """Who began it, by what is most certain; None = nobody can be named.

    A signal that the launcher saw; then who is missing from a collective; then the first to fail;
    then the ranks that were gone without a word, unless that is all of them; then the first that
    was gone while all others stayed for a while.
    """
    crash, one = how.word == "crash", int(how.first.sum()) == 1
    if crash and how.struck:
        return _Roots(how.first, told=one)
    roots = None if stall is None else _roots(grid, stall)
    roots = None if roots is None or not roots.ranks.any() else roots
    if roots is not None and roots.told:
        return roots
    if crash and how.first.any():
        return _Roots(how.first, told=one)
    gone = _gone(grid) if _noticed(grid, how) else None
    if gone is not None and (gone.told or roots is None):
        return gone
    if roots is not None:
        return roots
    left = died_first(grid) & last_said(grid, SILENT)
    if how.word is None and left.any() and _stayed(grid, left):
        return _Roots(left, told=False)
    return _Roots(how.first, told=False) if how.first.any() else None


def _noticed(grid: Grid, how: Ended) -> bool:
    """Whether somebody tells that it went wrong: the launcher, or a rank that met an error.

    Else ranks may have been ended one after another, as by who deletes their pods.
    """
    return how.word is not None or bool(last_said(grid, NOTICED).any())


def _stayed(grid: Grid, left: NDArray[np.bool_]) -> bool:
    """Whether all others were seen alive a scrape after these were seen gone, and got no further.

    Who deletes a run ends its ranks together: one of them may be seen gone first, but not for long.
    A run that goes on without a rank was not stopped by it.
    """
    since = grid.down_since
    if since is None or (dead(grid) & ~left).any():
        return False
    later = float(np.nanmin(since)) + max(SCRAPE_SECONDS, float(np.nan_to_num(grid.scrape_seconds)))
    age = grid.last.get(metrics.TRAIN_PROGRESS_AGE.name)
    if age is None or not np.isfinite(age[~left]).all():
        return False
    went_on = grid.last_time[metrics.TRAIN_PROGRESS_AGE.name] - age
    stand = bool((went_on[~left] <= float(np.nanmin(since)) + READ_SECONDS).all())
    return stand and bool((alive_until(grid)[~left] >= later).all())


def _ended_by(grid: Grid, moment: float) -> bool:
    """Whether a rank was gone by then: others may have waited for it because it was ended."""
    return grid.down_since is not None and bool((grid.down_since < moment).any())


def _gone(grid: Grid) -> _Roots | None:
    """The ranks whose end began it, by their pages; None where that may be any of them.

    So it may where a rank has no page, or was not seen any more when they went: they may have
    waited for it.
    """
    if np.isnan(grid.scraped_until).any() or unseen_then(grid).any():
        return None
    first, known = died_first(grid) & unclean(grid), all_told(grid)
    failed = last_said(grid, (RankState.FAILED,)) & known
    for some in (first, died_silently(grid), failed, unclean(grid)):
        if some.any() and not some.all():
            last = furthest_behind(grid, some)
            return _Roots(last, told=int(last.sum()) == 1 and (known or bool(first.any())))
    return None


def _roots(grid: Grid, stall: _Stall) -> _Roots:
    """Who began it, by what is most certain.

    Ranks that froze or died first; then ranks that are seen to wait for nobody, the nearest to the
    stall; then who is out of sight: how those stood in the end is not known, and had one of them
    stopped it, all who are seen would wait. Then those that may wait, as they began an operation
    that is not complete and are not seen inside. Nobody who may be gone because of one that was not
    seen any more.
    """
    after = dead(grid) & unseen_then(grid).any()
    stall = replace(stall, missing=stall.missing & ~after)
    sure = _surely(grid)
    near = stall.missing.copy()
    for group in ("dp", "pp", "tp"):
        for members in _instances(grid.ranks, group):
            if stall.missing[members].any():
                near[members] = True
    for some in (stall.missing & sure, near & sure, sure):
        if some.any():
            return _Roots(some, told=True)
    known, begun = under_way(grid)
    hidden = out_of_sight(grid) & ~_out_of_question(grid)
    known &= ~out_of_sight(grid)
    free = known & ~stuck_inside(grid) & ~stall.waiting & ~last_said(grid, NOTICED) & ~after
    idle = free & ~begun
    if (stall.missing & idle).any():
        return _Roots(stall.missing & idle, told=True)
    for suspects in (near & idle, idle, stall.missing & hidden, near & hidden, near & free):
        if suspects.any():
            last = furthest_behind(grid, suspects)
            return _Roots(last, told=int(last.sum()) == 1)
    return _Roots(stall.missing, told=False)


def _surely(grid: Grid) -> NDArray[np.bool_]:
    """(R,) who froze, or was gone before any other."""
    return frozen(grid) | died_first(grid) | died_silently(grid)


def _out_of_question(grid: Grid) -> NDArray[np.bool_]:
    """(R,) whose node fell silent while the run went on, where one that is seen surely began it.

    Where none is, the one that nobody saw may have: that it was not seen does not clear it.
    """
    hidden = out_of_sight(grid)
    return hidden & bool((_surely(grid) & ~hidden).any())


def _stalls(grid: Grid) -> Iterator[_Stall]:
    world = len(grid.ranks)
    never = np.full(world, np.nan)
    gone, stands, how = dead(grid), frozen(grid), ended(grid)
    quiet = died_silently(grid) | (how.first & (how.word == "crash"))
    noticed, hidden = _noticed(grid, how), _out_of_question(grid)
    first = gone & ~unseen_then(grid).any()
    for key, enqueued in grid.last.items():
        if not key.startswith(metrics.TRAIN_ENQUEUED.name + "{"):
            continue
        name = _label(GROUP, key)
        done = grid.last.get(key.replace("enqueued", "completed"), never)
        for members in _instances(grid.ranks, name or "world"):
            if not np.isfinite(enqueued[members]).any():
                continue
            sequence = int(np.nanmax(enqueued[members]))
            among = np.zeros(world, dtype=bool)
            among[members] = True
            waiting = among & (enqueued == sequence) & ~(done >= sequence)
            absent = among & (enqueued < sequence) & ~hidden
            seconds, since, op = _open(grid, waiting, name)
            if not absent.any():
                # Stopped inside the collective: everybody arrived, so only the state tells.
                absent = waiting & (stands | quiet | (first & ~gone[members].all()))
            waiting &= ~absent
            stalled = seconds >= stall_after(grid)
            if waiting.any() and (stalled or (noticed and bool((absent & gone).any()))):
                yield _Stall(name or "world", sequence, op, waiting, absent, seconds, since)


def _instances(ranks: tuple[RankInfo, ...], group: str) -> list[NDArray[np.int64]]:
    """Columns of each process group of a kind: the ranks that differ in that coordinate only."""
    shared = {
        "dp": lambda info: (info.pp, info.tp),
        "pp": lambda info: (info.dp, info.tp),
        "tp": lambda info: (info.dp, info.pp),
    }.get(group, lambda info: ())
    members: dict[tuple[int, ...], list[int]] = {}
    for column, info in enumerate(ranks):
        members.setdefault(shared(info), []).append(column)
    return [np.array(columns) for columns in members.values()]


def _open(
    grid: Grid, waiting: NDArray[np.bool_], group: str | None
) -> tuple[float, float, str | None]:
    """(seconds, since, op) of the oldest operation that the waiting ranks were last seen inside."""
    oldest, since, name = 0.0, float("nan"), None
    for key, age in grid.last.items():
        if not key.startswith(metrics.TRAIN_OPEN_OP_AGE.name) or _label(GROUP, key) != group:
            continue
        current = waiting & opened_since_last_step(grid, key)
        if current.any() and float(age[current].max()) > oldest:
            oldest, name = float(age[current].max()), _label(OPERATION, key)
            since = float((grid.last_time[key] - age)[current].min())
    return oldest, since, name


def _label(pattern: re.Pattern[str], key: str) -> str | None:
    found = pattern.search(key)
    return found.group(1) if found else None


def _state(grid: Grid, how: Ended, stall: _Stall | None, column: int) -> str:
    if how.word == "crash" and grid.ranks[column].rank in how.codes:
        return "dead"
    if frozen(grid)[column]:
        return "frozen"
    if not dead(grid)[column]:
        return "stuck"
    # A launcher ends all ranks of a run that hangs: who was there while the others waited is stuck.
    since = np.inf if stall is None else stall.since + STALL_SECONDS
    stopped = how.word == "hang" or alive_until(grid)[column] >= since
    return "stuck" if stopped and not died_first(grid)[column] else "dead"


def _finding(
    grid: Grid, how: Ended, stall: _Stall | None, roots: _Roots, column: int
) -> Finding:  # fmt: skip
    rank = grid.ranks[column].rank
    state = _state(grid, how, stall, column)
    nobody = np.zeros(len(grid.ranks), dtype=bool)
    behind, inside_it = (nobody, nobody) if stall is None else (stall.missing, stall.waiting)
    missing, waiting, began = (
        [grid.ranks[place].rank for place in np.flatnonzero(mask)]
        for mask in (behind, inside_it & ~roots.ranks, roots.ranks)
    )
    words = {
        "frozen": "its process is there but its heartbeat stopped",
        "dead": how_it_went(how, rank) or "its process is gone",
        "stuck": (
            "its node is not scraped any more, so how its process stands is not known"
            if silent(grid)[column]
            else "its process is alive and makes no progress"
        ),
    }[state]
    certainty = 1.0 if roots.told else min(UNSURE, 1 / len(began))
    if stall is None or (not (stall.missing & roots.ranks).any() and how.word == "crash"):
        text = _first(rank, began, told=roots.told)
    elif roots.told:
        text = _missing(rank, missing, waiting, stall)
    else:
        text = _untold(began, missing, waiting, stall)
    return Finding(
        detector="hang",
        kind="hang",
        rank=rank,
        first=len(grid.start),
        last=None,
        slowdown=float("nan"),
        interval=(float("nan"), float("nan")),
        score=0.0 if stall is None else stall.seconds,
        share={},
        text=f"{text}: {words}",
        details={
            "group": None if stall is None else stall.group,
            "sequence": None if stall is None else stall.sequence,
            "op": None if stall is None else stall.op,
            "missing_ranks": missing,
            "waiting_ranks": waiting,
            "state": state,
            "stalled_seconds": None if stall is None else stall.seconds,
            "certainty": certainty,
        },
    )


def _first(rank: int, began: list[int], *, told: bool) -> str:
    if told:
        return f"of all ranks, rank {rank} was the first to go"
    if len(began) == 1:
        return f"rank {rank} holds the others up, as far as can be told"
    return f"it cannot be told which of {_ranks(began)} began it"


def _missing(rank: int, missing: list[int], waiting: list[int], stall: _Stall) -> str:
    if rank in missing:
        return f"rank {rank} is missing from {_where(stall)}, in which {_waits(waiting)}"
    return (
        f"{_waits(missing)} for rank {rank}, and for that in turn {_waits(waiting)}"
        f" in {_where(stall)}"
    )


def _untold(began: list[int], missing: list[int], waiting: list[int], stall: _Stall) -> str:
    verb = "is" if len(missing) == 1 else "are"
    there = f"{_ranks(missing)} {verb} missing from {_where(stall)}, in which {_waits(waiting)}"
    if len(began) == 1:
        return f"{there}, and it cannot be told whether that rank waits for another"
    return f"{there}, and it cannot be told which of {_ranks(began)} began it"


def _where(stall: _Stall) -> str:
    return f"{stall.op or 'collective'} number {stall.sequence} of group {stall.group}"


def _waits(ranks: list[int]) -> str:
    return f"{_ranks(ranks)} wait{'s' if len(ranks) == 1 else ''}"


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
