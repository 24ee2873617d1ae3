"""Which rank is missing from which collective, from the dumps of one run's ranks on one node."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lockstep.collector.formats.flight_recorder.dump import Dump, GroupState

HELD_UP_SECONDS = 1.0
"""Dumps of one run are not of one moment: a rank counts as missing once others waited so long."""

AXES = {"mesh_dp": 0, "mesh_pp": 1, "mesh_tp": 2}
"""Groups as torch's device mesh describes them: the ranks that differ in one coordinate alone."""

Places = Mapping[int, tuple[int, int, int]]
"""By rank: dp, pp and tp."""

Told = dict[int, tuple[float, GroupState]]
"""By rank: when its dump was written, and the group in it."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A collective that some ranks are inside and others are not.

    Attributes:
        ranks: Had not enqueued it when they wrote their dumps.
        silent: Wrote no dump since the others are inside.
        waited_seconds: Of the rank that is inside for longest. Dumps are not of one moment: in a
            healthy run ranks are missing for milliseconds.
    """

    group: str
    sequence: int
    op: str
    ranks: tuple[int, ...]
    silent: tuple[int, ...]
    waited_seconds: float

    @property
    def held_up(self) -> bool:
        """Whether this is more than two dumps of different moments."""
        return self.waited_seconds >= HELD_UP_SECONDS


def missing(
    dumps: Iterable[Dump], here: Iterable[int] = (), places: Places | None = None
) -> list[Missing]:
    """The first collective that each rank is missing from, by group and sequence number.

    Args:
        dumps: Of one run, one a rank.
        here: All its ranks on this node: among them are those that wrote no dump. They count as
            members of a group if torch says so, or if it is the group of all ranks.
        places: Where the ranks stand: who is in a group of the mesh then follows (gloo's dumps do
            not tell).
    """
    groups: dict[str, Told] = {}
    dumped: set[int] = set()
    for dump in dumps:
        dumped.add(dump.rank)
        for state in dump.groups:
            groups.setdefault(state.name, {})[dump.rank] = dump.written_at, state
    silent = set(here) - dumped
    absences = [
        absence for group in groups.values() for absence in _of_group(group, silent, places or {})
    ]
    return sorted(absences, key=lambda one: (one.group, one.sequence))


def _of_group(told: Told, silent: set[int], places: Places) -> Iterator[Missing]:
    states = {rank: state for rank, (_, state) in told.items()}
    # A collective that one rank has completed was joined by all: the other dumps are older.
    joined = max(state.completed or 0 for state in states.values())
    inside: dict[int, list[tuple[str, float, float]]] = {}
    for written_at, state in told.values():
        for operation in state.open:
            if operation.sequence > joined:
                since = written_at - operation.waited_seconds
                inside.setdefault(operation.sequence, []).append(
                    (operation.op, operation.waited_seconds, since)
                )
    group = next(iter(states.values())).group
    members = {member for state in states.values() for member in state.members}
    if not members and group in AXES:
        members = _mates(AXES[group], places.keys() & states.keys(), places)
    if members or group != "world":
        silent = silent & members
    for sequence, waiting in sorted(inside.items()):
        behind = {
            rank for rank, reached in states.items() if (reached.enqueued or 0) + 1 == sequence
        }
        quiet: set[int] = set()
        if sequence == min(inside):
            began = min(since for _, _, since in waiting)
            quiet = silent | {rank for rank, (written_at, _) in told.items() if written_at < began}
        if behind or quiet:
            longest = max(seconds for _, seconds, _ in waiting)
            ranks, rest = tuple(sorted(behind)), tuple(sorted(quiet - behind))
            yield Missing(group, sequence, waiting[0][0], ranks, rest, longest)


def _mates(axis: int, ranks: Iterable[int], places: Places) -> set[int]:
    """The ranks that differ from one of these in this coordinate alone."""

    def rest(rank: int) -> tuple[int, ...]:
        return tuple(value for index, value in enumerate(places[rank]) if index != axis)

    lines = {rest(rank) for rank in ranks}
    return {rank for rank in places if rest(rank) in lines}
