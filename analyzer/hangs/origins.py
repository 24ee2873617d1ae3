"""What a rank that nobody it waits for explains has done, or not done."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from lockstep.analyzer.hangs.dumps import Operation, State
from lockstep.analyzer.hangs.evidence import Kind, Says
from lockstep.analyzer.hangs.merge import Merged
from lockstep.analyzer.hangs.waits import Graph, Wait, Why

KIND_OF: Mapping[Why, Kind] = {
    Why.ABSENT: Kind.HOST_STOPPED,
    Why.SILENT: Kind.SILENT,
    Why.UNFINISHED: Kind.DEVICE_STOPPED,
    Why.UNSTARTED: Kind.DEVICE_STOPPED,
    Why.CALLING: Kind.HOST_STOPPED,
    Why.ABORTED: Kind.COMMUNICATOR_ABORTED,
    Why.OPERATION: Kind.MISMATCHED_OPERATION,
    Why.SHAPE: Kind.MISMATCHED_SHAPE,
    Why.DTYPE: Kind.MISMATCHED_DTYPE,
}
CERTAINTY: Mapping[Kind, float] = {
    Kind.HOST_STOPPED: 0.95,
    Kind.DEVICE_STOPPED: 0.93,
    Kind.MISMATCHED_OPERATION: 0.95,
    Kind.MISMATCHED_SHAPE: 0.95,
    Kind.MISMATCHED_DTYPE: 0.95,
    Kind.MISMATCHED_ORDER: 0.8,
    Kind.COMMUNICATOR_ABORTED: 0.85,
    Kind.SILENT: 0.8,
}
"""Of the place, where all ranks wrote dumps; by judgement, not fitted: there are few real cases."""
CIRCLE = 0.75
"""Factor where the others wait for the rank, and it for them."""
UNSURE = 0.6
"""At most, where several may be the one."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A rank that holds the others up.

    Attributes:
        operation: In which others wait for it, or which does not end on it.
        waiting: Who waits for it directly.
        seconds: For how long that is certain; None = the files do not show.
        certain: False = it may be another of several.
    """

    rank: int
    kind: Kind
    why: Why
    operation: Operation
    waiting: tuple[int, ...]
    seconds: float | None
    confidence: float
    certain: bool = True
    facts: tuple[Says, ...] = ()


def age_of(merged: Merged, operation: Operation, ranks: Sequence[int]) -> float | None:
    """Seconds since the operation began, at the oldest of these ranks' dumps; None = not known."""
    written = [merged.traces[rank].written for rank in ranks if rank in merged.traces]
    known = [moment for moment in written if moment is not None]
    if len(known) < len(written) or not known:
        return None
    return max(0.0, min(known) - operation.created)


def _behind(merged: Merged, operation: Operation, rank: int) -> float | None:
    """Seconds for which a rank certainly holds up what is open on it; None = not known.

    That is from when others had ended it, or what comes later in its group; where nobody has, or
    no ring holds any longer when, from when the rank began it.
    """
    written = merged.traces[rank].written
    ends = [
        one.completed
        for other, trace in merged.traces.items()
        if other != rank and operation.transfer is None
        for one in trace.recent
        if one.transfer is None and one.completed is not None
        and one.group == operation.group and one.sequence >= operation.sequence
    ]  # fmt: skip
    if written is None or not ends:
        return age_of(merged, operation, (rank,))
    return max(0.0, written - max(min(ends), operation.created))


def _in_call(merged: Merged, operation: Operation, rank: int) -> float | None:
    """Seconds for which a rank's thread stands in the call, at least; None = nothing shows it.

    Where the file's time is not the dump's, the last thing that the dump holds came before it.
    """
    trace = merged.traces[rank]
    last = max((at for at in (trace.written, trace.last_event) if at is not None), default=None)
    if last is None or (trace.written is None and last <= operation.created):
        return None
    return max(0.0, last - operation.created)


def origins(merged: Merged, graph: Graph, component: frozenset[int]) -> list[Origin]:
    """The ranks of one root: one, or of several that wait in a circle those who began it."""
    if len(component) == 1:
        (rank,) = component
        origin = _single(merged, graph, rank)
        return [] if origin is None else [origin]
    return _circle(merged, graph, component)


def _single(merged: Merged, graph: Graph, rank: int) -> Origin | None:
    waits = graph.waited_for.get(rank, ())
    own = graph.origins.get(rank)
    if own is not None:
        why, operation = own
        kind, tied = KIND_OF[why], _tied(merged, graph, operation)
        seconds = (_in_call if why is Why.CALLING else _behind)(merged, operation, rank)
        return Origin(
            rank, kind, why, operation, _waiting(waits), seconds,
            min(UNSURE, 1 / tied) if tied else CERTAINTY[kind], certain=not tied,
        )  # fmt: skip
    if rank in merged.heads:  # what it waits in leads to nobody that is known
        return None
    why = Why.ABSENT if rank in merged.traces else Why.SILENT
    return Origin(
        rank, KIND_OF[why], why, _most_waited(waits), _waiting(waits),
        _standing_still(merged, rank, _longest(waits)), CERTAINTY[KIND_OF[why]],
    )  # fmt: skip


def _tied(merged: Merged, graph: Graph, operation: Operation) -> int:
    """How many differ where no call is that of most, or stand in one call; 0 = only one can be."""
    calling = [operation for why, operation in graph.origins.values() if why is Why.CALLING]
    alike = [
        one for one in calling if (one.group, one.sequence) == (operation.group, operation.sequence)
    ]
    if alike:
        return len(alike) if len(alike) > 1 else 0
    held = merged.collectives.get((operation.group, operation.sequence), {})
    if operation.transfer is not None:
        return 2 if any(why in (Why.SHAPE, Why.DTYPE) for why, _ in graph.origins.values()) else 0
    differ = [
        rank
        for rank, operation in held.items()
        if rank in graph.origins and graph.origins[rank][1] is operation
        and graph.origins[rank][0] in (Why.OPERATION, Why.SHAPE, Why.DTYPE)
    ]  # fmt: skip
    return len(differ) if len(differ) == len(held) else 0


def _waiting(waits: Sequence[Wait]) -> tuple[int, ...]:
    return tuple(sorted({wait.rank for wait in waits}))


def _most_waited(waits: Sequence[Wait]) -> Operation:
    """The operation in which most wait; of several the first."""
    ranks = Counter((wait.operation.group, wait.operation.sequence) for wait in waits)
    return min(
        (wait.operation for wait in waits),
        key=lambda operation: (-ranks[operation.group, operation.sequence], operation.created),
    )


def _longest(waits: Sequence[Wait]) -> float | None:
    return max((wait.proven for wait in waits if wait.proven is not None), default=None)


def _standing_still(merged: Merged, rank: int, waited: float | None) -> float | None:
    """For how long others wait and the rank does nothing else: one that works is on its way."""
    trace = merged.traces.get(rank)
    if trace is None or waited is None or trace.written is None or trace.last_event is None:
        return waited
    return min(waited, max(0.0, trace.written - trace.last_event))


def _circle(merged: Merged, graph: Graph, component: frozenset[int]) -> list[Origin]:
    """Who began it where each waits for another: by what is known, in this order.

    Where others' operations have started and a rank's has not, its device does something else. A
    sender does not wait for its send. Who has begun fewer operations than others in the same
    place has left one out. Whom others went past in an operation that holds only it stopped. Else
    it is the rank that most are waiting for, of several the one that is most alone in what it waits
    in: it is likelier that one is wrong than that many are.
    """
    missed = {rank: graph.waited_for.get(rank, ()) for rank in component}
    absent = {
        rank: here
        for rank, waits in missed.items()
        if (here := [wait for wait in waits if (rank, Why.ABSENT) in wait.targets])
    }
    sending = {
        rank
        for rank in absent
        if all(
            operation.transfer is not None and operation.transfer.sends
            for operation in merged.heads[rank]
        )
    }
    skipped = {rank for rank, waits in absent.items() if _left_out(merged, rank, waits)}
    passed = {rank for rank, waits in absent.items() if _passed(merged, rank, waits)}
    states = {rank: merged.heads[rank][0].state for rank in component}
    unstarted = {rank for rank, state in states.items() if state is State.SCHEDULED}
    for some, kind in (
        (unstarted, Kind.DEVICE_STOPPED),
        (sending, Kind.HOST_STOPPED),
        (skipped, Kind.MISMATCHED_ORDER),
        (passed, Kind.HOST_STOPPED),
        (_most_missed(merged, missed), Kind.MISMATCHED_ORDER),
    ):
        if some and some != missed.keys():
            return [
                _of_circle(merged, rank, kind, missed[rank], CIRCLE * CERTAINTY[kind], certain=True)
                for rank in sorted(some)
            ]
    kind = Kind.MISMATCHED_ORDER
    return [
        _of_circle(merged, rank, kind, waits, min(UNSURE, 1 / len(missed)), certain=False)
        for rank, waits in sorted(missed.items())
    ]


def of_hidden_circle(graph: Graph, merged: Merged, hidden: Set[int]) -> list[Origin]:
    """Whom most wait for where all wait, some of them in what no ring holds; [] = nobody more."""
    waited = graph.waited_for
    missed = {rank: waited.get(rank, ()) for rank in {*hidden, *merged.heads}}
    counts = {rank: len(_waiting(waits)) for rank, waits in missed.items()}
    first = [rank for rank, count in counts.items() if count == max(counts.values())]
    if len(first) > 1:
        return []
    kind = Kind.MISMATCHED_ORDER
    sure = CIRCLE * CERTAINTY[kind]
    return [_of_circle(merged, rank, kind, missed[rank], sure, certain=True) for rank in first]


def _most_missed(merged: Merged, missed: Mapping[int, Sequence[Wait]]) -> set[int]:
    """Those that more are waiting for than for any other; of several, the most alone."""
    counts = {rank: len(_waiting(waits)) for rank, waits in missed.items()}
    most = max(counts.values())
    some = {rank for rank, count in counts.items() if count == most}
    shares = {rank: _company(merged, rank) for rank in some}
    least = min(shares.values())
    return {rank for rank, share in shares.items() if share == least}


def _company(merged: Merged, rank: int) -> float:
    """Of the members of what it waits in, those that wait in it."""
    head = merged.heads[rank][0]
    members = merged.members.get(head.group, ())
    there = sum(
        1
        for member in members
        if member in merged.heads
        and (merged.heads[member][0].group, merged.heads[member][0].sequence)
        == (head.group, head.sequence)
    )
    return there / max(len(members), 1)


def _of_circle(
    merged: Merged, rank: int, kind: Kind, waits: Sequence[Wait], sure: float, *, certain: bool
) -> Origin:
    seconds = _standing_still(merged, rank, _longest(waits))
    return Origin(
        rank, kind, Why.ABSENT, _most_waited(waits), _waiting(waits), seconds, sure, certain=certain
    )


def _left_out(merged: Merged, rank: int, waits: Sequence[Wait]) -> bool:
    """Whether most that are inside what it is inside have begun more in groups of the same kind."""
    head = merged.heads[rank][0]
    mates = [
        each
        for each, ops in merged.heads.items()
        if each != rank and (ops[0].group, ops[0].sequence) == (head.group, head.sequence)
    ]
    for wait in waits:
        kind = merged.described.get(wait.operation.group)
        counts = [
            count
            for mate in mates
            if (count := _begun(merged, mate, kind, wait.operation)) is not None
        ]
        if counts and Counter(counts).most_common(1)[0][0] >= wait.operation.sequence:
            return True
    return False


def _begun(merged: Merged, rank: int, kind: str | None, operation: Operation) -> int | None:
    """Collectives that a rank has begun in its group of this kind."""
    for name, group in merged.traces[rank].groups.items():
        if merged.described.get(name) == kind and operation.transfer is None:
            return group.enqueued if group.enqueued is not None else group.collectives
    return None


def _passed(merged: Merged, rank: int, waits: Sequence[Wait]) -> bool:
    """Whether others that are in the operation that is open on it went on to what it is not in."""
    head = merged.heads[rank][0]
    if head.transfer is not None:
        return False
    held = merged.collectives[head.group, head.sequence]
    return any(
        wait.operation.order > held[wait.rank].order
        for wait in waits
        if wait.rank in held and not held[wait.rank].done
    )
