"""Whether a run stands still, since whom, and in which way: from the dumps of its ranks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from lockstep.analyzer.hangs.dumps import Dumps, GroupTrace, Operation, RankTrace
from lockstep.analyzer.hangs.evidence import Kind, Says, refined, said
from lockstep.analyzer.hangs.merge import Merged
from lockstep.analyzer.hangs.origins import Origin, age_of, of_hidden_circle, origins
from lockstep.analyzer.hangs.waits import Graph, Stuck, Why, roots, wait_graph

MOST_NAMED = 12
"""Ranks in a sentence."""


@dataclass(frozen=True, slots=True)
class Unheld:
    """Something that is not over and that no ring holds, or that cannot be determined.

    Attributes:
        ranks: That others may wait for; () = the counters do not show.
        reason: In words.
    """

    ranks: tuple[int, ...]
    reason: str


def unheld(merged: Merged, limit: float) -> Unheld | None:
    """What counters of groups say where no ring holds an open operation: who may not be through.

    The first that speaks against all being over; who did something lately is on its way.

    Args:
        limit: Seconds from which on a rank that does nothing waits.
    """
    still = {rank: trace for rank, trace in merged.traces.items() if not _is_busy(trace, limit)}
    for name in sorted(merged.members):
        begun = dict(_begun(merged, name))
        most = max(begun.values(), default=0)
        behind = tuple(sorted(rank for rank in begun.keys() & still if begun[rank] < most))
        if behind:
            fewest = min(begun[rank] for rank in behind)
            reason = (
                f"by the counters {_ranks_have(behind)} begun fewer operations of"
                f" {merged.described[name]} than others ({fewest} of {most}), and no dump holds"
                " what is open"
            )
            return Unheld(behind if 2 * len(behind) < len(begun) else (), reason)
    inside = tuple(sorted(rank for rank, trace in still.items() if _is_inside(merged, trace)))
    if inside:
        reason = f"by the counters {_ranks_have(inside)} begun more operations than ended"
        return Unheld((), f"{reason}, and no dump holds what is open")
    silent = tuple(sorted(rank for rank, trace in merged.traces.items() if not _tells(trace)))
    if silent:
        reason = f"the dumps of {_ranks(silent)} hold neither operations nor counters"
        return Unheld((), reason)
    return None


def _is_busy(trace: RankTrace, limit: float) -> bool:
    if trace.written is None or trace.last_event is None:
        return False
    return trace.written - trace.last_event < limit


def _begun(merged: Merged, name: str) -> Iterator[tuple[int, int]]:
    """How many collectives of a group each member has begun; not where transfers count, too."""
    if name in merged.shared:
        return
    for rank in merged.members[name]:
        trace = merged.traces.get(rank)
        if trace is None or not _tells(trace):
            continue
        group = trace.groups.get(name)
        count = None if group is None else _begun_by_counter(group)
        if count is not None or not trace.unmapped:
            yield rank, count or 0


def _begun_by_counter(group: GroupTrace) -> int | None:
    counts = [each for each in (group.enqueued, group.collectives) if each is not None]
    return max(counts, default=None)


def _is_inside(merged: Merged, trace: RankTrace) -> bool:
    """Whether it began what it did not end; what its ring holds is over, whatever counters say."""
    for name, group in trace.groups.items():
        if group.enqueued is None:
            continue
        if name in merged.shared:
            over = {operation.sequence for operation in trace.recent if operation.group == name}
            if group.enqueued not in {group.completed, 0, *over}:
                return True
        elif group.enqueued > max(group.completed or 0, group.collectives or 0):
            return True
    return any((counters.enqueued or 0) > (counters.completed or 0) for counters in trace.unmapped)


def _tells(trace: RankTrace) -> bool:
    counters = (*(_begun_by_counter(group) for group in trace.groups.values()),
                *(counters.enqueued for counters in trace.unmapped))  # fmt: skip
    return bool(trace.recent or trace.open) or any(each is not None for each in counters)


def _ranks_have(ranks: tuple[int, ...]) -> str:
    return f"{_ranks(ranks)} {'has' if len(ranks) == 1 else 'have'}"


def _ranks(ranks: tuple[int, ...]) -> str:
    text = ", ".join(map(str, ranks[:MOST_NAMED]))
    more = f" and {len(ranks) - MOST_NAMED} more" if len(ranks) > MOST_NAMED else ""
    return f"rank{'' if len(ranks) == 1 else 's'} {text}{more}"


LIMIT_SECONDS = 30.0
"""Ranks wait for each other all the time; over this, and over what this run was ever seen to wait,
it is no ordinary wait."""
TIMES_QUIET = 3.0
OF_TIME_OUT = 0.9
"""A wait that comes near to torch's own time-out is none to get used to."""
MOST_SILENT = 0.25
"""Of the ranks: if more wrote no dump, it is the collection of dumps that failed."""
UNTIMED = 0.9
"""Factor where it is not known how long the ranks have waited."""
PER_FACT, MOST = 0.5, 0.99
"""Another sensor that agrees halves the doubt."""
BY_FACT_ALONE = 0.6
"""Where the waits leave several ranks, and another sensor reports one."""

TELLS_HOW_IT_ENDED = 4
"""Strength of an exit code or a kernel's line; a process that is gone has less."""

WENT_ON = "ranks have finished what others had not begun, so the run went on between them"
LOST = "the dumps do not show how far the ranks are that the others wait for"
NO_DUMPS = "their dumps are missing and needed, as more than a few do not stop at once"
ALONE = "more ranks stay away from it than wait in it, so that those inside may be wrong"
NO_TIMES = "nothing is open, but the dumps' times are unknown, and so is for how long"
NO_OPERATIONS = "nothing is open, but no dump holds an operation that shows since when"
UNSEEN = "they wait for somebody in what gloo does not record, as a send or receive, or stand still"
ALL_INSIDE = "all its ranks are inside, and the dumps do not show on which of them it does not end"


class Status(StrEnum):
    """Of a run by its dumps."""

    HANG = "hang"
    WAITING = "waiting"
    HEALTHY = "healthy"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class HangVerdict:
    """What the dumps of one job tell.

    Attributes:
        suspects: Ranks among which the origin is, where nobody can be named; else those without a
            dump, which may be waiting for who is named, or another origin.
        kind: Of the hang; None = there is none, or it cannot be determined.
        reason: Why nobody is named, in words; "" where somebody is.
    """

    status: Status
    merged: Merged
    graph: Graph
    origins: tuple[Origin, ...] = ()
    suspects: tuple[int, ...] = ()
    kind: Kind | None = None
    operation: Operation | None = None
    reason: str = ""
    limit: float = LIMIT_SECONDS


def judge(dumps: Dumps, limit: float | None = None) -> HangVerdict:
    """Who began it.

    Args:
        limit: Seconds from which on a wait is a hang; None = by what this run was seen to wait.
    """
    merged = Merged(dumps)
    graph = wait_graph(merged)
    most = _limit(merged) if limit is None else limit
    verdict = HangVerdict(Status.UNKNOWN, merged, graph, limit=most)
    if not merged.heads and not graph.origins:
        return _nothing_open(verdict)
    candidates = [
        origin for some in roots(graph, merged) for origin in origins(merged, graph, some)
    ]
    old = [origin for origin in candidates if origin.seconds is None or origin.seconds >= most]
    stuck = [
        stuck
        for stuck in graph.stuck.values()
        if (age := age_of(merged, stuck.operation, stuck.ranks)) is None or age >= most
    ]
    certain = [
        origin for origin in old if origin.seconds is not None or not _is_doubtful(graph, origin)
    ]
    if certain:
        return _named(verdict, certain)
    if old:
        return replace(verdict, reason=f"the dumps are of different moments: {WENT_ON}")
    if stuck:
        return _inside(verdict, stuck)
    if candidates or graph.stuck:
        return replace(verdict, status=Status.WAITING)
    return replace(verdict, suspects=tuple(sorted(graph.unknown)), reason=LOST)


def _is_doubtful(graph: Graph, origin: Origin) -> bool:
    """Whether dumps of different moments, of which none tells when it was, would look the same."""
    if origin.why is Why.UNFINISHED:
        return any(origin.operation.group in groups for groups in graph.outdated.values())
    return origin.rank in graph.outdated


def _limit(merged: Merged) -> float:
    quiet = max((trace.quiet for trace in merged.traces.values()), default=0.0)
    outs = [
        operation.timeout
        for head in merged.heads.values()
        for operation in head
        if operation.timeout
    ]
    most = OF_TIME_OUT * min(outs) if outs else float("inf")
    return min(max(TIMES_QUIET * quiet, LIMIT_SECONDS), most)


def _nothing_open(verdict: HangVerdict) -> HangVerdict:
    """No ring holds what is open: all is well, or what they wait for is not recorded."""
    traces = verdict.merged.traces.values()
    idle = [
        trace.written - trace.last_event
        for trace in traces
        if trace.written is not None and trace.last_event is not None
    ]
    if idle and min(idle) >= verdict.limit:
        by_facts = [
            origin for origin in _by_facts(verdict.merged) if not _may_have_finished(origin)
        ]
        if by_facts:
            return _named(verdict, by_facts)
    not_over = unheld(verdict.merged, verdict.limit)
    if not_over is not None:
        return replace(verdict, suspects=not_over.ranks, reason=not_over.reason)
    lacking = verdict.merged.world - verdict.merged.traces.keys()
    if lacking and not (idle and min(idle) >= verdict.limit):
        return replace(verdict, reason="nothing is open on the ranks that wrote dumps")
    if not idle:
        timed = any(trace.written is not None for trace in traces)
        return replace(verdict, reason=NO_OPERATIONS if timed else NO_TIMES)
    if min(idle) >= verdict.limit:
        reason = f"no rank has begun an operation for {min(idle):.0f} s, and none is open"
        return replace(verdict, reason=f"{reason}: what they wait for is not recorded")
    return replace(verdict, status=Status.HEALTHY)


def _may_have_finished(origin: Origin) -> bool:
    """Whether only its process is known to be gone: so is that of a rank that is through."""
    strongest = max((fact.strength for fact in origin.facts), default=0)
    return origin.kind is Kind.LEFT or (
        origin.kind is Kind.PEER_DIED and strongest < TELLS_HOW_IT_ENDED
    )


def _named(verdict: HangVerdict, old: Sequence[Origin]) -> HangVerdict:
    """With those who can be believed; else with the ranks among which it is, and why."""
    named = [_with_facts(verdict.merged, origin) for origin in old]
    first = min(named, key=lambda origin: origin.operation.created)
    named, unclear = _explained(verdict.merged, verdict.graph, named)
    if not named:
        ranks = tuple(sorted(origin.rank for origin in unclear))
        return replace(
            verdict, status=Status.HANG, operation=first.operation, suspects=ranks, reason=UNSEEN
        )
    hang = replace(verdict, status=Status.HANG, kind=first.kind, operation=first.operation)
    quiet = [origin for origin in named if origin.kind is Kind.SILENT]
    if heard := [origin for origin in named if origin.kind is not Kind.SILENT]:
        # Who wrote no dump may wait for these itself, as it was not heard.
        named = heard
        hang = replace(hang, suspects=tuple(sorted(origin.rank for origin in quiet)))
    elif len(quiet) > max(1.0, MOST_SILENT * len(verdict.merged.world)):
        ranks = tuple(origin.rank for origin in quiet)
        return replace(hang, suspects=ranks, kind=None, reason=NO_DUMPS)
    away = [
        origin for origin in named if origin.why is Why.ABSENT and origin.kind is Kind.HOST_STOPPED
    ]
    if len(away) > len({rank for origin in away for rank in origin.waiting}):
        named = [origin for origin in named if origin not in away]
        if not named:
            ranks = tuple(sorted({*hang.suspects, *(origin.rank for origin in away)}))
            return replace(hang, suspects=ranks, kind=None, reason=ALONE)
    named.sort(key=lambda origin: (origin.operation.created, origin.rank))
    return replace(hang, origins=tuple(named), kind=named[0].kind, operation=named[0].operation)


def _explained(
    merged: Merged, graph: Graph, told: list[Origin]
) -> tuple[list[Origin], list[Origin]]:
    """(those who may be named, else those among whom it is): away may be a wait that gloo hides.

    A rank on gloo with nothing open is stopped, or inside a send or receive, or its collective has
    failed. So what else is known decides: another sensor, a dump that lacks, a call that differs
    are no consequence of a wait.
    """
    if not merged.retiring:
        return told, []
    idle = [
        origin
        for origin in told
        if origin.why is Why.ABSENT and origin.kind is Kind.HOST_STOPPED
        and not any(fact.kind is not None for fact in origin.facts)
    ]  # fmt: skip
    if len(idle) < len(told):
        return [origin for origin in told if origin not in idle], []
    facts = merged.dumps.facts
    if by_facts := _by_facts(merged):
        return by_facts, []
    away = [origin for origin in idle if not any(fact.waits for fact in origin.facts)]
    if len(away) == 1:
        return away, []
    hidden = merged.world - merged.heads.keys()
    if not away and all(any(fact.waits for fact in said(facts, rank)) for rank in hidden):
        return of_hidden_circle(graph, merged, hidden), idle
    return [], idle


def _by_facts(merged: Merged) -> list[Origin]:
    """Ranks of which only another sensor tells, where the waits are not recorded."""
    every = [
        operation for trace in merged.traces.values() for operation in (*trace.recent, *trace.open)
    ]
    if not every:
        return []
    last, origins = max(every, key=lambda operation: operation.created), []
    for rank in sorted(merged.world - merged.heads.keys()):
        facts = tuple(said(merged.dumps.facts, rank, age_of(merged, last, list(merged.traces))))
        kind = refined(Kind.SILENT, facts)
        if kind is not Kind.SILENT:
            why = Why.ABSENT if rank in merged.traces else Why.SILENT
            sure = _surer(BY_FACT_ALONE, facts)
            origins.append(Origin(rank, kind, why, last, (), None, sure, facts=facts))
    return origins


def _inside(verdict: HangVerdict, stuck: Sequence[Stuck]) -> HangVerdict:
    """Everybody is in the operation: only another sensor can tell who does not end it."""
    first = min(stuck, key=lambda wait: wait.operation.created)
    hang = replace(
        verdict,
        status=Status.HANG,
        kind=Kind.COMMUNICATOR_STUCK,
        operation=first.operation,
        suspects=first.ranks,
        reason=ALL_INSIDE,
    )
    named = []
    for rank in first.ranks:
        seconds = age_of(verdict.merged, first.operation, (rank,))
        facts = tuple(said(verdict.merged.dumps.facts, rank, seconds))
        kind = refined(Kind.COMMUNICATOR_STUCK, facts)
        if kind is not Kind.COMMUNICATOR_STUCK:
            others = tuple(each for each in first.ranks if each != rank)
            sure = _surer(BY_FACT_ALONE, facts)
            why = Why.UNFINISHED
            named.append(
                Origin(rank, kind, why, first.operation, others, seconds, sure, facts=facts)
            )
    if not named:
        return hang
    return replace(hang, origins=tuple(named), suspects=(), kind=named[0].kind, reason="")


def _with_facts(merged: Merged, origin: Origin) -> Origin:
    """With what other sensors say of the rank; they distinguish kinds that look alike in dumps."""
    facts = tuple(said(merged.dumps.facts, origin.rank, origin.seconds))
    share = len(merged.traces) / max(len(merged.world), 1)
    sure = origin.confidence * (1.0 if origin.kind is Kind.SILENT else 0.5 + 0.5 * share)
    sure *= UNTIMED if origin.seconds is None else 1.0
    kind = refined(origin.kind, facts)
    return replace(origin, kind=kind, confidence=_surer(sure, facts), facts=facts)


def _surer(confidence: float, facts: Sequence[Says]) -> float:
    agreeing = sum(1 for statement in facts if statement.kind is not None)
    return min(MOST, 1.0 - (1.0 - confidence) * PER_FACT**agreeing)
