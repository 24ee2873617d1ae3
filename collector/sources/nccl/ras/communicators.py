"""The communicators of each run in an answer, and those of their ranks that are shown."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from lockstep.collector.readings.source import RankProcess
from lockstep.collector.sources.nccl.ras.status import (
    MISSING,
    STATES,
    UNKNOWN,
    Communicator,
    Rank,
    Status,
    Version,
)

MAX_GROUPS = 24
MAX_RANKS = 64
STANDING_POLLS = 2
"""Polls after the first that saw the same counts, from which on ranks that differ are stuck."""


@dataclass(frozen=True, slots=True)
class ShownRank:
    """One rank; `lag` is how far it is behind the first of its communicator, by operation.

    An operation of which the first is not known has no lag.
    """

    rank: int
    launched: Mapping[str, int]
    lag: Mapping[str, int]
    states: tuple[str, ...]
    need: tuple[int, ...]
    """Smaller = more needed."""

    @property
    def lag_or_state(self) -> bool:
        """Whether it is not as the others."""
        return bool(self.states) or any(self.lag.values())


@dataclass(frozen=True, slots=True)
class Group:
    """One communicator; see status.Communicator. `stuck` is None where not all are known."""

    name: str
    size: int | None
    missing: int | None
    stuck: bool | None
    launched: Mapping[str, tuple[int, int]]
    ranks: tuple[ShownRank, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """One run as one answer of RAS shows it.

    Attributes:
        run: By the ring of one of its ranks on this node; "" if there is none.
        here: Whether its rank 0 is on this node, or the first rank that answers if rank 0 does
            not; None = RAS does not tell.
        groups: The MAX_GROUPS that one needs most.
        standing: By group: counts, and for how many polls they have not changed.
        names: Of all its communicators.
        whole: `names` are all there are.
        version: Of its NCCL, or None.
    """

    run: str
    here: bool | None
    kinds: Mapping[tuple[str, str], int]
    collection_seconds: float | None
    timeouts: int | None
    groups: tuple[Group, ...]
    standing: Mapping[str, tuple[int, int]]
    names: frozenset[str]
    whole: bool
    version: Version | None = None

    def same_run(self, other: "Picture") -> bool:
        """Whether both show one run: they share a communicator, or one cannot tell."""
        return not (self.whole and other.whole) or bool(self.names & other.names)


def pictured(
    status: Status,
    before: Iterable[Picture],
    living: Iterable[RankProcess],
    is_here: Callable[[str], bool],
) -> Picture:
    """The answer, compared with those before it.

    Args:
        status: The answer.
        before: Earlier pictures, of this run or others.
        living: Ranks of this node by their rings.
        is_here: Whether a host, as NCCL names it, is this node.
    """
    earlier = {name: seen for picture in before for name, seen in picture.standing.items()}
    standing = {
        communicator.group: _standing(communicator, earlier.get(communicator.group))
        for communicator in status.communicators
    }
    hosts = {rank.host for communicator in status.communicators for rank in communicator.ranks} - {
        UNKNOWN
    }
    local = frozenset(host for host in hosts if is_here(host))
    groups = sorted(
        status.communicators, key=lambda one: _need(one, _stuck(one, standing[one.group]))
    )
    living = tuple(living)
    run = _run(status.communicators, living, local)
    return Picture(
        run,
        _here(status, run, living, local),
        dict(status.kinds),
        status.collection_seconds,
        status.timeouts,
        tuple(
            _group(group, _stuck(group, standing[group.group]), local, status.whole)
            for group in groups[:MAX_GROUPS]
        ),
        standing,
        frozenset(standing),
        status.whole,
        status.version,
    )


def _standing(communicator: Communicator, before: tuple[int, int] | None) -> tuple[int, int]:
    counts = hash((
        tuple((communicator.launched or {}).items()),
        tuple((rank.rank, *rank.launched.values()) for rank in communicator.ranks),
    ))  # fmt: skip
    return counts, before[1] + 1 if before is not None and before[0] == counts else 0


def _stuck(communicator: Communicator, standing: tuple[int, int]) -> bool | None:
    """Counts that differ are normal while they grow (NCCL documentation, RAS)."""
    if communicator.launched is None:
        return None
    return standing[1] >= STANDING_POLLS and any(
        low < high for low, high in communicator.launched.values()
    )


def _need(communicator: Communicator, stuck: bool | None) -> tuple[bool, bool, int, str]:
    return (
        not stuck,
        communicator.health in ("ok", "mismatch"),
        -(communicator.size or 0),
        communicator.group,
    )


def _group(
    communicator: Communicator, stuck: bool | None, local: frozenset[str], whole: bool
) -> Group:
    bounds = communicator.launched or {}
    used = {op: most for op, (_, most) in bounds.items() if most > 0}
    ops = used.keys() if communicator.launched is not None else _used(communicator.ranks)
    shown = [
        each
        for rank in communicator.ranks
        # Where not all ranks are named, those are that are not as most.
        if (each := _shown(rank, ops, used, bool(stuck), rank.host in local)).lag_or_state
        or rank.host in local
        or not whole
    ]
    shown.sort(key=lambda each: each.need)
    launched = {op: bounds[op] for op in used}
    return Group(
        communicator.group,
        communicator.size,
        communicator.missing,
        stuck,
        launched,
        tuple(shown[:MAX_RANKS]),
    )


def _used(ranks: Iterable[Rank]) -> set[str]:
    return {op for rank in ranks for op, count in rank.launched.items() if count > 0}


def _shown(
    rank: Rank, ops: Collection[str], most: Mapping[str, int], stuck: bool, local: bool
) -> ShownRank:
    """The rank with its order of need.

    That is: what is wrong with it, then being late in what is stuck, then being on this node, then
    being late in what moves.
    """
    launched = {op: rank.launched[op] for op in ops if op in rank.launched}
    lag = {op: most[op] - count for op, count in launched.items() if op in most}
    behind = max(lag.values(), default=0)
    worst = min((STATES.index(state) for state in rank.states), default=len(STATES))
    kind = 1 if stuck and behind else 2 if local else 3
    return ShownRank(
        rank.rank,
        launched,
        lag,
        rank.states,
        (0 if rank.states else kind, worst, -behind, rank.rank),
    )


def _run(
    communicators: Iterable[Communicator],
    living: tuple[RankProcess, ...],
    local: frozenset[str],
) -> str:
    runs = {rank.pid: rank.run for rank in living}
    return next(
        (
            runs[rank.pid]
            for communicator in communicators
            for rank in communicator.ranks
            if rank.pid in runs and rank.host in local
        ),
        "",
    )


def _here(
    status: Status, run: str, living: tuple[RankProcess, ...], local: frozenset[str]
) -> bool | None:
    if any(rank.rank == 0 and (rank.run == run or not status.whole) for rank in living):
        return True
    # Text names outliers only: the first of them is not rank 0.
    first = _first(status.communicators) if status.whole else None
    if first is None:
        return None
    # Emulated nodes share a machine: where rings tell of the run, the process has to be ours.
    ours = not run or first.pid in {rank.pid for rank in living}
    return first.host in local and ours


def _first(communicators: Iterable[Communicator]) -> Rank | None:
    """The first rank that answers in the largest communicator; every node finds the same."""
    largest = min(communicators, key=lambda one: (-(one.size or 0), one.group), default=None)
    if largest is None:
        return None
    known = [rank for rank in largest.ranks if rank.host != UNKNOWN]
    return min(known, key=lambda rank: (MISSING in rank.states, rank.rank), default=None)
