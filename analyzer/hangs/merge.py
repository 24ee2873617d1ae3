"""The dumps of one job put together: which ranks, which groups, and how far each rank got."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from statistics import median

from lockstep.analyzer.hangs.dumps import WORLD, Dumps, GroupTrace, Operation, RankTrace

SAME_COUNT = 16
"""Counters of one group differ by what ranks enqueue ahead, those of two groups by far more."""


class Arrival(Enum):
    """Of a rank towards one operation."""

    ABSENT = auto()
    INSIDE = auto()
    DONE = auto()
    SILENT = auto()
    UNKNOWN = auto()


Key = tuple[str, int]
"""Group and sequence of a collective."""


@dataclass(frozen=True)
class Merged:
    """One job, with what follows from all its dumps together."""

    dumps: Dumps

    @cached_property
    def traces(self) -> Mapping[int, RankTrace]:
        """By rank, with counters that only the peers' dumps give a name."""
        return with_counters_by_peers(self.dumps.traces)

    @cached_property
    def world(self) -> frozenset[int]:
        """Every rank of the job, those without a dump, too."""
        return frozenset(self.dumps.world) | self.traces.keys()

    @cached_property
    def members(self) -> Mapping[str, tuple[int, ...]]:
        """By group, in its own order; () where it is not known.

        A list that lacks its own rank counts members within something else: then the members are
        those whose dumps know the group, as names are given once in a job.
        """
        members: dict[str, tuple[int, ...]] = {}
        knowing: dict[str, set[int]] = defaultdict(set)
        wrong: set[str] = set()
        for rank, trace in self.traces.items():
            for name, group in trace.groups.items():
                knowing[name].add(rank)
                if group.members and rank in group.members:
                    members.setdefault(name, group.members)
                elif group.members:
                    wrong.add(name)
        found = {}
        for name, ranks in knowing.items():
            if name in members and name not in wrong:
                found[name] = members[name]
            elif name == WORLD:
                found[name] = tuple(sorted(self.world))
            else:
                found[name] = tuple(sorted(ranks))
        untold = {name for name in found if name not in members and name != WORLD}
        silent = self.world - self.traces.keys()
        return found | _completed(found, untold, self.described, self.world, silent)

    @cached_property
    def described(self) -> Mapping[str, str]:
        """The description of each group; where nobody describes it, its name."""
        found: dict[str, str] = {}
        for trace in self.traces.values():
            for name, group in trace.groups.items():
                if group.description not in ("", name):
                    found[name] = group.description
                else:
                    found.setdefault(name, name)
        return found

    @cached_property
    def shared(self) -> frozenset[str]:
        """Groups that transfers use, too: their counters count either."""
        return frozenset(
            name
            for trace in self.traces.values()
            for name, group in trace.groups.items()
            if group.transfers
        )

    @cached_property
    def retiring(self) -> bool:
        """Whether this is gloo: it retires what failed, too, and records no sends and receives."""
        return any(trace.backend == "gloo" for trace in self.traces.values())

    @cached_property
    def aborted(self) -> Mapping[int, Operation]:
        """By rank: an operation that it gave up before its time-out, or gave up and went on."""
        found = {}
        for rank, trace in self.traces.items():
            for operation in trace.open:
                if operation.retired and _gave_up(operation, trace):
                    found[rank] = operation
                    break
        return found

    @cached_property
    def heads(self) -> Mapping[int, tuple[Operation, ...]]:
        """By rank that waits: its oldest open operation, with what was launched together with it.

        What a device runs later waits for that.
        """
        found = {}
        for rank, trace in self.traces.items():
            waiting = [
                operation for operation in trace.open if operation is not self.aborted.get(rank)
            ]
            if waiting:
                first = waiting[0]
                found[rank] = tuple(
                    operation
                    for operation in waiting
                    if operation is first
                    or (
                        first.transfer is not None
                        and operation.transfer is not None
                        and (operation.group, operation.sequence) == (first.group, first.sequence)
                    )
                )
        return found

    @cached_property
    def collectives(self) -> Mapping[Key, Mapping[int, Operation]]:
        """What the rings hold of each collective, by rank."""
        found: dict[Key, dict[int, Operation]] = defaultdict(dict)
        for rank, trace in self.traces.items():
            for operation in (*trace.recent, *trace.open):
                if operation.transfer is None:
                    found[operation.group, operation.sequence][rank] = operation
        return found

    @cached_property
    def ended(self) -> Mapping[str, int]:
        """By group: the last collective that one of its ranks has seen to end."""
        found: dict[str, int] = defaultdict(int)
        for trace in self.traces.values():
            for name, group in trace.groups.items():
                if name not in self.shared and group.completed is not None:
                    found[name] = max(found[name], group.completed)
            for operation in trace.recent:
                if operation.transfer is None:
                    found[operation.group] = max(found[operation.group], operation.sequence)
        return found

    def arrival(self, rank: int, group: str, sequence: int) -> Arrival:
        """How far a member of the group is with a collective of it."""
        trace = self.traces.get(rank)
        if trace is None:
            return Arrival.SILENT
        entry = self.collectives.get((group, sequence), {}).get(rank)
        if entry is not None:
            if entry is self.aborted.get(rank):
                return Arrival.ABSENT
            return Arrival.DONE if entry.done else Arrival.INSIDE
        told = trace.groups.get(group)
        if told is None:
            # Its dump names all that it used, or has counters that may be this group's.
            return Arrival.UNKNOWN if trace.unmapped else Arrival.ABSENT
        return _by_counters(told, sequence, shared=group in self.shared, trace=trace)

    def is_calling(self, rank: int, operation: Operation) -> bool:
        """Whether the rank's thread still stands inside the call of an open collective.

        torch writes the ring's entry before it calls the communication library, and raises
        `last_enqueued_collective` after the call has returned (ProcessGroupNCCL.cpp, `collective`
        and `workEnqueue`).
        """
        group = self.traces[rank].groups.get(operation.group)
        if self.retiring or operation.group in self.shared or operation.transfer is not None:
            return False
        return (
            group is not None
            and group.enqueued is not None
            and group.enqueued < operation.sequence
            and not operation.done
        )


def _completed(
    members: Mapping[str, tuple[int, ...]],
    untold: Iterable[str],
    described: Mapping[str, str],
    world: frozenset[int],
    silent: frozenset[int],
) -> dict[str, tuple[int, ...]]:
    """Groups of which only those are known that wrote dumps, with the others that belong to them.

    Groups of one description share the world out evenly: who is in none of them belongs to the one
    that is smaller than the others. If there is one alone, whoever wrote no dump may belong to it.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for name in untold:
        alike[described[name]].append(name)
    found = {}
    for names in alike.values():
        rest = world.difference(*(members[name] for name in names))
        if len(names) == 1 and rest & silent:
            found[names[0]] = tuple(sorted({*members[names[0]], *(rest & silent)}))
            continue
        size = max(len(members[name]) for name in names)
        short = [name for name in names if len(members[name]) < size]
        if len(short) == 1 and len(rest) == size - len(members[short[0]]):
            found[short[0]] = tuple(sorted({*members[short[0]], *rest}))
    return found


def _by_counters(group: GroupTrace, sequence: int, *, shared: bool, trace: RankTrace) -> Arrival:
    enqueued, completed = group.enqueued, group.completed
    if shared:
        # The counter may be that of a transfer; the ring may tell how many collectives there were.
        if group.collectives is not None and group.collectives >= sequence:
            return Arrival.DONE
        return Arrival.INSIDE if enqueued == sequence != completed else Arrival.ABSENT
    if enqueued is None:
        enqueued = group.collectives
    if enqueued is None:
        return Arrival.UNKNOWN if trace.unmapped else Arrival.ABSENT
    if enqueued < sequence:
        return Arrival.ABSENT
    # Not in the ring although it was enqueued: it is over, and left the ring.
    return Arrival.DONE if completed is None or completed >= sequence else Arrival.INSIDE


def _gave_up(operation: Operation, trace: RankTrace) -> bool:
    """Retired without end: torch's watchdog ended it, for the time-out or since it was aborted."""
    if trace.written is not None and operation.timeout is not None:
        return trace.written - operation.created < operation.timeout
    return any(each.order > operation.order for each in trace.recent)


def with_counters_by_peers(traces: Mapping[int, RankTrace]) -> Mapping[int, RankTrace]:
    """Counters without a name get that of the one group whose counters elsewhere are the same."""
    if not any(trace.unmapped for trace in traces.values()):
        return traces
    counts: dict[str, list[int]] = defaultdict(list)
    for trace in traces.values():
        for name, group in trace.groups.items():
            if group.enqueued is not None:
                counts[name].append(group.enqueued)
    usual = {name: median(some) for name, some in counts.items()}
    return {
        rank: _renamed(trace, usual) if trace.unmapped else trace for rank, trace in traces.items()
    }


def _renamed(trace: RankTrace, usual: Mapping[str, float]) -> RankTrace:
    free = [name for name, group in trace.groups.items() if group.enqueued is None]
    choices = {
        counters.handle: [
            name
            for name in free
            if counters.enqueued is not None
            and name in usual
            and abs(usual[name] - counters.enqueued) <= max(SAME_COUNT, usual[name] / 1000)
        ]
        for counters in trace.unmapped
    }
    taken = [name for names in choices.values() for name in names]
    groups, rest = dict(trace.groups), []
    for counters in trace.unmapped:
        names = choices[counters.handle]
        if len(names) == 1 and taken.count(names[0]) == 1:
            groups[names[0]] = replace(
                groups[names[0]], enqueued=counters.enqueued, completed=counters.completed
            )
        else:
            rest.append(counters)
    return replace(trace, groups=groups, unmapped=tuple(rest))
