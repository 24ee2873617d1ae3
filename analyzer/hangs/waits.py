"""Who waits for whom: a graph over ranks, each waiting in the first thing that is open on it.

An edge says: this rank cannot go on before that one does. Whoever is waited for and waits for
nobody is what the waits cannot explain; that is the origin.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lockstep.analyzer.hangs.dumps import Operation, RankTrace, State, Transfer
from lockstep.analyzer.hangs.merge import Arrival, Key, Merged

UNSIZED = frozenset(
    ("all_to_all", "alltoall", "all_to_all_single", "alltoall_base", "scatter", "gather")
)
"""Ranks exchange different amounts in them by design."""
RELATED = {"allreduce": "all_reduce", "allgather": "all_gather"}
"""What one backend writes as one word."""


class Why(StrEnum):
    """Why a rank is waited for, and what it is inside itself."""

    ABSENT = "absent"
    SILENT = "silent"
    BEHIND = "behind"
    UNFINISHED = "unfinished"
    UNSTARTED = "unstarted"
    CALLING = "calling"
    ABORTED = "aborted"
    OPERATION = "operation"
    SHAPE = "shape"
    DTYPE = "dtype"


def deviants_of(merged: Merged, key: Key, held: Mapping[int, Operation]) -> dict[int, Why]:
    """Ranks whose call is not that of most.

    Of a tie it is not what groups of the same description called by that number; if these tell
    nothing, all of them.
    """
    for why in (Why.OPERATION, Why.DTYPE, Why.SHAPE):
        calls = {rank: _call(operation, why) for rank, operation in held.items()}
        counts = Counter(calls.values())
        if len(counts) > 1 and (why is Why.OPERATION or () not in counts):
            (usual, most), (_, second) = counts.most_common(2)
            if most > second:
                return {rank: why for rank, call in calls.items() if call != usual}
            elsewhere = Counter(_call(operation, why) for operation in _alike(merged, key))
            if elsewhere and (expected := elsewhere.most_common(1)[0][0]) in counts:
                return {rank: why for rank, call in calls.items() if call != expected}
            return dict.fromkeys(calls, why)
    return {}


def _call(operation: Operation, why: Why) -> object:
    """What of a call all ranks must agree on."""
    if why is Why.OPERATION:
        return RELATED.get(operation.op, operation.op)
    if why is Why.DTYPE:
        return operation.dtypes
    return () if operation.op in UNSIZED else operation.inputs


def _alike(merged: Merged, key: Key) -> Iterator[Operation]:
    """The calls of this number in other groups of the same description."""
    group, sequence = key
    for name, description in merged.described.items():
        if name != group and description == merged.described[group]:
            yield from merged.collectives.get((name, sequence), {}).values()


ROOTED = frozenset(("broadcast", "reduce", "gather", "scatter", "_broadcast_oop", "_reduce_oop"))
"""A rank may be through with them although another is not: not all need everybody's data."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A rank waits in an operation for others; `proven` seconds, None = the files do not show."""

    rank: int
    operation: Operation
    targets: tuple[tuple[int, Why], ...]
    proven: float | None


@dataclass(frozen=True, slots=True)
class Stuck:
    """An operation that all of these are inside, and none has finished."""

    operation: Operation
    ranks: tuple[int, ...]


@dataclass(slots=True)
class Graph:
    """Waits by the rank that waits.

    Attributes:
        origins: Ranks that have an origin in themselves, and why: they wait for nobody whatever is
            open on them.
        stuck: Operations in which all that take part are, without anybody having finished.
        outdated: By rank, the groups in which it had not begun what others have ended, so that its
            dump is older than theirs.
        unknown: Ranks that are waited for, of which the dumps do not show how far they are.
    """

    waits: dict[int, list[Wait]] = field(default_factory=lambda: defaultdict(list))
    origins: dict[int, tuple[Why, Operation]] = field(default_factory=dict)
    stuck: dict[tuple[str, int, int], Stuck] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)
    outdated: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def waited_for(self) -> Mapping[int, Sequence[Wait]]:
        """By rank: the waits that it is a target of."""
        found: dict[int, list[Wait]] = defaultdict(list)
        for waits in self.waits.values():
            for wait in waits:
                for target, _ in wait.targets:
                    found[target].append(wait)
        return found


def wait_graph(merged: Merged) -> Graph:
    """The waits of all ranks."""
    graph = Graph()
    _ended_elsewhere(merged, graph)
    collectives: dict[Key, list[int]] = defaultdict(list)
    for rank, head in merged.heads.items():
        for operation in head:
            if operation.transfer is None:
                collectives[operation.group, operation.sequence].append(rank)
            else:
                _transfer(merged, graph, rank, operation, operation.transfer)
    if merged.retiring:
        _failed(merged, graph)
    for rank, operation in merged.aborted.items():
        graph.origins.setdefault(rank, (Why.ABORTED, operation))
    for (group, sequence), ranks in collectives.items():
        _collective(merged, graph, group, sequence, ranks)
    for rank in graph.origins:
        graph.waits.pop(rank, None)
    return graph


def _ended_elsewhere(merged: Merged, graph: Graph) -> None:
    """Ranks on which something is open that others have ended: all have been there, so have they.

    It need not be what they wait in first: what a device had to do before that is over, too.
    """
    for rank, trace in merged.traces.items():
        for operation in trace.open:
            if (
                operation.transfer is not None
                or operation.op in ROOTED
                or operation is merged.aborted.get(rank)
            ):
                continue
            key = (operation.group, operation.sequence)
            if merged.ended.get(operation.group, 0) >= operation.sequence and not _may_have_failed(
                merged, key
            ):
                deviants = deviants_of(merged, key, merged.collectives[key])
                if deviants and rank not in deviants:
                    continue  # they ended another operation
                graph.origins[rank] = (deviants.get(rank, Why.UNFINISHED), operation)
                break


def _may_have_failed(merged: Merged, key: Key) -> bool:
    """Whether an end may be an error: gloo retires either, and a member that died makes errors."""
    members = merged.members.get(key[0], ())
    return merged.retiring and any(merged.arrival(each, *key) is Arrival.SILENT for each in members)


def _failed(merged: Merged, graph: Graph) -> None:
    """Calls that differed, in operations that nobody is inside any more: all may have failed."""
    for key, held in merged.collectives.items():
        if _may_have_failed(merged, key):
            deviants = deviants_of(merged, key, held)
            if 0 < len(deviants) < len(held):
                for rank, why in deviants.items():
                    graph.origins.setdefault(rank, (why, held[rank]))
                _explain_silent(merged, graph, held, deviants)


def _explain_silent(
    merged: Merged, graph: Graph, held: Mapping[int, Operation], deviants: Mapping[int, Why]
) -> None:
    """Members without a dump wait for those that differ, or died of it, as gloo ends a process."""
    operation = held[next(iter(deviants))]
    targets = tuple(sorted(deviants.items()))
    for member in merged.members.get(operation.group, ()):
        if (
            member in merged.world
            and merged.arrival(member, operation.group, operation.sequence) is Arrival.SILENT
        ):
            proven = _proven(merged, operation, min(deviants), _oldest(merged, deviants))
            graph.waits[member].append(Wait(member, operation, targets, proven))


def _collective(
    merged: Merged, graph: Graph, group: str, sequence: int, ranks: Sequence[int]
) -> None:
    """What those wait for whose head is this collective."""
    members = [rank for rank in merged.members.get(group, ()) if rank in merged.world]
    by: dict[Arrival, list[int]] = defaultdict(list)
    for member in members:
        by[merged.arrival(member, group, sequence)].append(member)
    held = merged.collectives[group, sequence]
    here = {rank: operation for rank, operation in held.items() if rank in members}
    deviants = deviants_of(merged, (group, sequence), here)
    if deviants:
        for rank, why in deviants.items():
            graph.origins.setdefault(rank, (why, held[rank]))
        _wait(merged, graph, held, set(ranks) - deviants.keys(), sorted(deviants.items()))
        _explain_silent(merged, graph, held, deviants)
        return
    done, absent = by[Arrival.DONE], [*by[Arrival.ABSENT], *by[Arrival.SILENT]]
    if done and by[Arrival.ABSENT]:
        # Nobody finishes what not all have begun: these dumps are older than the others.
        for rank in by[Arrival.ABSENT]:
            graph.outdated[rank].add(group)
    late = [
        rank
        for rank in by[Arrival.INSIDE]
        if rank not in ranks or merged.heads[rank][0] is not held[rank]
    ]
    graph.unknown.update(by[Arrival.UNKNOWN])
    calling = [rank for rank in by[Arrival.INSIDE] if merged.is_calling(rank, held[rank])]
    if done:
        for rank in calling:
            graph.outdated[rank].add(group)
    if absent or late:
        groups = (
            (by[Arrival.ABSENT], Why.ABSENT), (by[Arrival.SILENT], Why.SILENT), (late, Why.BEHIND)
        )  # fmt: skip
        _wait(merged, graph, held, ranks, [(each, why) for some, why in groups for each in some])
    elif 0 < 2 * len(calling) <= len(by[Arrival.INSIDE]):
        # The others' calls have returned, so their devices wait. Where most are inside the call,
        # they may be connecting with each other.
        for rank in calling:
            graph.origins.setdefault(rank, (Why.CALLING, held[rank]))
        waiting = [rank for rank in ranks if rank not in calling]
        _wait(merged, graph, held, waiting, [(rank, Why.CALLING) for rank in calling])
    elif done and len(by[Arrival.INSIDE]) == 1:
        # Of an operation with a root others may end first; not all but one, one after another.
        graph.origins.setdefault(ranks[0], (Why.UNFINISHED, held[ranks[0]]))
    elif not by[Arrival.UNKNOWN]:
        _all_inside(merged, graph, (group, sequence), ranks)


def _all_inside(merged: Merged, graph: Graph, key: Key, ranks: Sequence[int]) -> None:
    """Everybody is in it: who has not started, if others have; else it cannot be determined."""
    held = merged.collectives[key]
    started = [rank for rank in ranks if held[rank].state is State.STARTED]
    waiting = [rank for rank in ranks if held[rank].state is State.SCHEDULED]
    if started and waiting:
        for rank in waiting:
            graph.origins.setdefault(rank, (Why.UNSTARTED, held[rank]))
        _wait(merged, graph, held, started, [(rank, Why.UNSTARTED) for rank in waiting])
    else:
        graph.stuck[key[0], key[1], 0] = Stuck(held[ranks[0]], tuple(sorted(ranks)))


def _transfer(
    merged: Merged, graph: Graph, rank: int, operation: Operation, transfer: Transfer
) -> None:  # fmt: skip
    """What a rank waits for that exchanges with another."""
    peer = _peer(merged, rank, operation.group, transfer)
    if peer is None:
        return
    trace = merged.traces.get(peer)
    if trace is None:
        target = ((peer, Why.SILENT),)
    else:
        other = _counterpart(merged, trace, rank, operation)
        if other is not None and other in merged.heads.get(peer, ()):
            if other.dtypes != operation.dtypes or other.inputs != operation.inputs:
                why = Why.DTYPE if other.dtypes != operation.dtypes else Why.SHAPE
                graph.origins.setdefault(rank, (why, operation))
                return
            if {operation.state, other.state} == {State.STARTED, State.SCHEDULED}:
                if operation.state is State.SCHEDULED:
                    graph.origins.setdefault(rank, (Why.UNSTARTED, operation))
                else:
                    _wait(merged, graph, {rank: operation}, [rank], [(peer, Why.UNSTARTED)])
                return
            if _ended_fewer(merged, rank, peer, operation.group):
                graph.origins.setdefault(rank, (Why.UNFINISHED, operation))
                return
            if _ended_fewer(merged, peer, rank, operation.group):
                _wait(merged, graph, {rank: operation}, [rank], [(peer, Why.UNFINISHED)])
                return
            pair = (min(rank, peer), max(rank, peer))
            graph.stuck[operation.group, *pair] = Stuck(operation, pair)
            return
        target = ((peer, Why.ABSENT if other is None else Why.BEHIND),)
    proven = _proven(merged, operation, rank, _oldest(merged, [peer]))
    graph.waits[rank].append(Wait(rank, operation, target, proven))


def _ended_fewer(merged: Merged, rank: int, peer: int, group: str) -> bool:
    """Whether a rank has seen fewer transfers end than the other, of a group of these two alone.

    Each belongs to one of the other's; both have begun the same number.
    """
    mine, theirs = merged.traces[rank], merged.traces[peer]
    begun = [trace.groups[group].enqueued for trace in (mine, theirs)]
    if len(merged.members.get(group, ())) != 2 or begun[0] is None or begun[0] != begun[1]:
        return False
    if any(trace.groups[group].collectives for trace in (mine, theirs)):
        return False
    left = [sum(operation.group == group for operation in trace.open) for trace in (mine, theirs)]
    return left[0] > left[1]


def _peer(merged: Merged, rank: int, group: str, transfer: Transfer) -> int | None:
    """The other one, as a rank of the job."""
    members = merged.members.get(group, ())
    if transfer.me < len(members) and members[transfer.me] == rank:
        return members[transfer.peer] if transfer.peer < len(members) else None
    return transfer.peer if transfer.me == rank else None


def _counterpart(
    merged: Merged, trace: RankTrace, rank: int, operation: Operation
) -> Operation | None:  # fmt: skip
    """The oldest open half of the peer that this one may belong to."""
    assert operation.transfer is not None
    return next(
        (
            each
            for each in trace.open
            if each.transfer is not None
            and each.group == operation.group
            and each.transfer.sends != operation.transfer.sends
            and _peer(merged, trace.rank, each.group, each.transfer) == rank
        ),
        None,
    )


def _wait(
    merged: Merged,
    graph: Graph,
    held: Mapping[int, Operation],
    ranks: Iterable[int],
    targets: Sequence[tuple[int, Why]],
) -> None:
    """These ranks wait in one operation for all the targets."""
    shared = tuple(targets)
    oldest = _oldest(merged, [rank for rank, _ in shared])
    for rank in ranks:
        proven = _proven(merged, held[rank], rank, oldest)
        graph.waits[rank].append(Wait(rank, held[rank], shared, proven))


def _oldest(merged: Merged, ranks: Iterable[int]) -> float | None:
    """When the first of these dumps was written; infinity where there is none, None = not known."""
    written = [merged.traces[rank].written for rank in ranks if rank in merged.traces]
    known = [moment for moment in written if moment is not None]
    return None if len(known) < len(written) else min(known, default=float("inf"))


def _proven(merged: Merged, operation: Operation, rank: int, oldest: float | None) -> float | None:
    """Seconds for which a wait is certain: the rank was inside, and no target was.

    So much lies between the begin of the operation and the oldest of the dumps.
    """
    written = merged.traces[rank].written
    if written is None or oldest is None:
        return None
    return max(0.0, min(written, oldest) - operation.created)


def roots(graph: Graph, merged: Merged) -> list[frozenset[int]]:
    """Sets of ranks that are waited for and wait for nobody else; of several, they form a circle.

    Tarjan's strongly connected components (SIAM Journal on Computing 1, 1972), without recursion.
    """
    targets = {
        rank: [target for wait in waits for target, _ in wait.targets]
        for rank, waits in graph.waits.items()
    }
    waited = {target for each in targets.values() for target in each}
    result = []
    for component in _components(targets, waited | targets.keys()):
        leaves = any(not component.issuperset(targets.get(rank, ())) for rank in component)
        if not leaves and (component & waited or component & graph.origins.keys()):
            result.append(frozenset(component))
    result += [frozenset((rank,)) for rank in graph.origins if rank not in waited]
    return result


def _components(targets: Mapping[int, Sequence[int]], nodes: set[int]) -> Iterator[set[int]]:
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for start in sorted(nodes):
        if start in index:
            continue
        work = [(start, iter(targets.get(start, ())))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, rest = work[-1]
            for target in rest:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(targets.get(target, ()))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = set()
                    while node not in component:
                        component.add(stack.pop())
                    on_stack -= component
                    yield component
