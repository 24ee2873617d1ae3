"""A collective that some ranks are in and others never reached: who is missing, and how."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Finding, Grid, RankInfo
from collector.contract import metrics

STALL_SECONDS = 3.0
STALL_STEPS = 10.0
"""A collective open for more than 3 s and 10 steps is stalled."""
FROZEN_SECONDS = 3.0
"""A heartbeat (every second) older than this is a frozen process (contract TRAIN_HEARTBEAT_AGE)."""
DIED_TOGETHER_SECONDS = 1.0
"""What the scrapes of two nodes may lie apart."""
NORMAL_ENDS = ("finished", "interrupted")
GROUP = re.compile(r'group="(\w+)"')
OPERATION = re.compile(r'op="([\w-]+)"')


@dataclass(frozen=True, slots=True)
class _Stall:
    """One collective that some wait in; masks over ranks."""

    group: str
    sequence: int
    op: str | None
    waiting: NDArray[np.bool_]
    missing: NDArray[np.bool_]
    seconds: float


class Hang:
    """Sequence numbers of the last scrapes; a run that ended normally has no hang."""

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """One finding of kind `hang` a missing rank; its `state` is dead, frozen or stuck."""
        if _ending(grid) in NORMAL_ENDS:
            return ()
        stalls = [stall for stall in _stalls(grid) if stall.missing.any()]
        if not stalls:
            return ()
        stall = max(stalls, key=lambda stall: (stall.seconds, stall.sequence))
        roots = _roots(grid, stall)
        return [_finding(grid, stall, int(column)) for column in np.flatnonzero(roots)]


def _roots(grid: Grid, stall: _Stall) -> NDArray[np.bool_]:
    """Who began it: a missing rank that waits for somebody in another group is a victim itself."""
    waits = _waits(grid) & ~_frozen(grid) & ~_died_first(grid)
    roots: NDArray[np.bool_] = stall.missing & ~waits
    if roots.any():
        return roots
    near = np.zeros(len(grid.ranks), dtype=bool)
    for group in ("dp", "pp", "tp"):
        for members in _instances(grid.ranks, group):
            if stall.missing[members].any():
                near[members] = True
    roots = near & ~waits & ~stall.waiting
    return roots if roots.any() else stall.missing


def _waits(grid: Grid) -> NDArray[np.bool_]:
    """Ranks that were last seen inside an operation, of whatever group."""
    inside = np.zeros(len(grid.ranks), dtype=bool)
    for key, enqueued in grid.last.items():
        if key.startswith(metrics.TRAIN_ENQUEUED.name + "{"):
            done = grid.last.get(key.replace("enqueued", "completed"))
            if done is not None:
                inside |= enqueued > done
        elif key.startswith(metrics.TRAIN_OPEN_OP_AGE.name):
            inside |= _now(grid, key) & (enqueued >= _step_seconds(grid))
    return inside


def _died_first(grid: Grid) -> NDArray[np.bool_]:
    """Ranks whose process was gone clearly before the others'; nobody where all went together."""
    gone = grid.down_since
    if gone is None or not np.isfinite(gone).any():
        return np.zeros(len(grid.ranks), dtype=bool)
    first: NDArray[np.bool_] = gone <= np.nanmin(gone) + DIED_TOGETHER_SECONDS
    return np.zeros_like(first) if first.all() else first


def _ending(grid: Grid) -> object:
    """How the launcher says the run ended; None while it goes on or when nobody knows."""
    outcome = grid.meta.get("outcome", grid.meta.get("ending"))
    return outcome.get("ending") if isinstance(outcome, Mapping) else outcome


def _stalls(grid: Grid) -> Iterator[_Stall]:
    world = len(grid.ranks)
    never = np.full(world, np.nan)
    dead, frozen = _dead(grid), _frozen(grid)
    for key, enqueued in grid.last.items():
        if not key.startswith(metrics.TRAIN_ENQUEUED.name + "{"):
            continue
        name = _label(GROUP, key)
        done = grid.last.get(key.replace("enqueued", "completed"), never)
        for members in _instances(grid.ranks, name or "world"):
            if not np.isfinite(enqueued[members]).any():
                continue
            sequence = int(np.nanmax(enqueued[members]))
            inside = np.zeros(world, dtype=bool)
            inside[members] = True
            waiting = inside & (enqueued == sequence) & ~(done >= sequence)
            absent = inside & (enqueued < sequence)
            seconds, op = _open(grid, waiting, name)
            if not absent.any():
                # Stopped inside the collective: everybody arrived, so only the state tells.
                gone = dead & ~dead[members].all()
                absent = waiting & (frozen | gone)
            waiting &= ~absent
            stalled = seconds >= max(STALL_SECONDS, STALL_STEPS * _step_seconds(grid))
            if waiting.any() and (stalled or bool((absent & dead).any())):
                yield _Stall(name or "world", sequence, op, waiting, absent, seconds)


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


def _open(grid: Grid, waiting: NDArray[np.bool_], group: str | None) -> tuple[float, str | None]:
    """(seconds, op) of the oldest operation that the waiting ranks were last seen inside."""
    oldest, name = 0.0, None
    for key, age in grid.last.items():
        if not key.startswith(metrics.TRAIN_OPEN_OP_AGE.name) or _label(GROUP, key) != group:
            continue
        current = waiting & _now(grid, key)
        if current.any() and float(age[current].max()) > oldest:
            oldest, name = float(age[current].max()), _label(OPERATION, key)
    return oldest, name


def _now(grid: Grid, key: str) -> NDArray[np.bool_]:
    """Whose open operation opened after the last step began; an earlier one has ended as well."""
    ended = float(grid.end.max()) if len(grid.end) else -np.inf
    opened = grid.last_time[key] - grid.last[key]
    now: NDArray[np.bool_] = opened >= ended - _step_seconds(grid) - 0.5
    return now


def _dead(grid: Grid) -> NDArray[np.bool_]:
    down = grid.down_since
    return np.zeros(len(grid.ranks), dtype=bool) if down is None else np.isfinite(down)


def _frozen(grid: Grid) -> NDArray[np.bool_]:
    """Heartbeat old when the process was last seen, older than the peers' by as much."""
    age = grid.last.get(metrics.TRAIN_HEARTBEAT_AGE.name)
    if age is None or not np.isfinite(age).any():
        return np.zeros(len(grid.ranks), dtype=bool)
    frozen: NDArray[np.bool_] = age - np.nanmin(age) >= FROZEN_SECONDS
    return frozen


def _step_seconds(grid: Grid) -> float:
    wall = grid.time["wall"]
    there = wall[np.isfinite(wall)]
    return float(np.median(there)) if there.size else 0.0


def _label(pattern: re.Pattern[str], key: str) -> str | None:
    found = pattern.search(key)
    return found.group(1) if found else None


def _finding(grid: Grid, stall: _Stall, column: int) -> Finding:
    rank = grid.ranks[column].rank
    state = "frozen" if _frozen(grid)[column] else "dead" if _dead(grid)[column] else "stuck"
    missing = [grid.ranks[place].rank for place in np.flatnonzero(stall.missing)]
    waiting = [grid.ranks[place].rank for place in np.flatnonzero(stall.waiting)]
    how = {
        "frozen": "its process is there but its heartbeat stopped",
        "dead": "its process is gone",
        "stuck": "its process is alive and makes no progress",
    }[state]
    op = stall.op or "collective"
    return Finding(
        detector="hang",
        kind="hang",
        rank=rank,
        first=len(grid.start),
        last=None,
        slowdown=float("nan"),
        interval=(float("nan"), float("nan")),
        score=stall.seconds,
        share={},
        text=f"{_missing(rank, missing, waiting, op, stall)}: {how}",
        details={
            "group": stall.group,
            "sequence": stall.sequence,
            "op": stall.op,
            "missing_ranks": missing,
            "waiting_ranks": waiting,
            "state": state,
            "stalled_seconds": stall.seconds,
        },
    )


def _missing(rank: int, missing: list[int], waiting: list[int], op: str, stall: _Stall) -> str:
    where = f"{op} number {stall.sequence} of group {stall.group}"
    who = f"{_ranks(waiting)} wait{'s' if len(waiting) == 1 else ''}"
    if rank in missing:
        return f"rank {rank} is missing from {where}, in which {who}"
    verb = "waits" if len(missing) == 1 else "wait"
    return f"{_ranks(missing)} {verb} for rank {rank}, and for that in turn {who} in {where}"


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
