"""A hang verdict in sentences for people, and as JSON whose keys stay."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.analyzer.hangs import stacks as stack_words
from lockstep.analyzer.hangs.dumps import Fact, Operation
from lockstep.analyzer.hangs.evidence import (
    Kind,
    has_rule,
    meaning,
    shown,
    statements,
    unknown_kinds,
)
from lockstep.analyzer.hangs.origins import Origin
from lockstep.analyzer.hangs.stacks import ranks_in_words, stretches
from lockstep.analyzer.hangs.verdict import HangVerdict, Status
from lockstep.analyzer.hangs.waits import Why
from lockstep.analyzer.shapes.wording import certainty

SCHEMA_VERSION = 1
MOST_WAITS = 4096
MOST_UNUSED, MOST_UNUSED_LINES = 64, 8
"""Facts that are listed as not used, in JSON and in the table."""

WORDS: Mapping[Kind, tuple[str, str]] = {
    Kind.HOST_STOPPED: (
        "its process makes no progress and waits for no other rank",
        "their processes make no progress and wait for no other rank",
    ),
    Kind.DATA_LOADER: ("it waits for its data loader", "they wait for their data loaders"),
    Kind.CHECKPOINT_STORAGE: (
        "it waits for the storage of checkpoints", "they wait for the storage of checkpoints"
    ),
    Kind.PEER_DIED: ("its process has died", "their processes have died"),
    Kind.LEFT: ("it has left, without an error", "they have left, without an error"),
    Kind.SILENT: (
        "it wrote no dump, so its process is gone, or stopped as a whole",
        "they wrote no dumps, so their processes are gone, or stopped as a whole",
    ),
    Kind.MISMATCHED_ORDER: (
        "it is inside another operation, so that one was left out, or their order differs",
        "they are inside other operations, so that one was left out, or their order differs",
    ),
    Kind.DEVICE_STOPPED: ("its device does not go on", "their devices do not go on"),
    Kind.COMMUNICATOR_ABORTED: ("it gave that up before its time-out",
                                "they gave that up before its time-out"),
    Kind.MISMATCHED_OPERATION: ("it calls another operation", "they call another operation"),
    Kind.MISMATCHED_SHAPE: ("it calls it with another shape", "they call it with other shapes"),
    Kind.MISMATCHED_DTYPE: ("it calls it with another dtype", "they call it with another dtype"),
    Kind.COMMUNICATOR_STUCK: ("the rank on which it does not end is unknown",) * 2,
}  # fmt: skip
"""What is wrong, of one rank and of several."""


def sentence(verdict: HangVerdict) -> str:
    """Who, in what, and why; or why nobody."""
    match verdict.status:
        case Status.HEALTHY:
            return "No hang: nothing is open that others wait for."
        case Status.WAITING:
            return (
                f"No hang so far: ranks wait for each other, but for less than"
                f" {verdict.limit:.0f} s."
            )
        case Status.UNKNOWN:
            return f"Unknown whether the run hangs: {verdict.reason}."
        case Status.HANG:
            return _hang(verdict)


def document(verdict: HangVerdict, job: str = "") -> dict[str, Any]:
    """As JSON; None is what nobody knows."""
    merged, dumps = verdict.merged, verdict.merged.dumps
    written = [trace.written for trace in merged.traces.values()]
    waits = [wait for some in verdict.graph.waits.values() for wait in some]
    return {
        "schema_version": SCHEMA_VERSION,
        "job": job,
        "status": verdict.status.value,
        "kind": None if verdict.kind is None else verdict.kind.value,
        "sentence": sentence(verdict),
        "culprits": [_culprit(verdict, origin) for origin in verdict.origins],
        "suspects": list(verdict.suspects),
        "operation": None if verdict.operation is None else _where(verdict, verdict.operation),
        "limit_seconds": verdict.limit,
        "waits": [
            {
                "rank": wait.rank,
                **_where(verdict, wait.operation),
                "for_ranks": [rank for rank, _ in wait.targets],
                "seconds": wait.proven,
            }
            for wait in sorted(waits, key=lambda wait: wait.rank)[:MOST_WAITS]
        ],
        "coverage": {
            "ranks": len(merged.world),
            "dumps": len(merged.traces),
            "without_dump": sorted(merged.world - merged.traces.keys()),
            "unmapped_groups": sum(len(trace.unmapped) for trace in merged.traces.values()),
            "times_known": sum(moment is not None for moment in written),
            "not_told": unknown_kinds(dumps.facts),
            "notes": sorted({note for trace in merged.traces.values() for note in trace.notes}),
        },
        "facts_not_used": [
            {"rank": fact.rank, "kind": fact.kind.value, "value": shown(fact.value), "why": why}
            for fact, why in _unused(verdict)[:MOST_UNUSED]
        ],
        "rejected": list(dumps.rejected),
        "stacks": stack_words.document(verdict),
    }


def table(verdict: HangVerdict, job: str = "") -> str:
    """For people: the sentence, what speaks for it, and what is not known."""
    merged = verdict.merged
    lines = [f"{job}: {sentence(verdict)}" if job else sentence(verdict)]
    for origin in verdict.origins:
        sure = certainty(origin.confidence)
        lines.append(f"  rank {origin.rank}: {origin.kind.value}, confidence in the place {sure}")
        lines += [
            f"    {'+' if fact.kind is not None else '-'} {fact.text}" for fact in origin.facts
        ]
    if stacks := stack_words.table(verdict):
        lines.append(textwrap.indent(stacks, "  "))
    gone = merged.world - merged.traces.keys()
    coverage = f"dumps of {len(merged.traces)} of {len(merged.world)} ranks"
    if gone:
        coverage += f" (none of {ranks_in_words(gone)})"
    unmapped = sum(len(trace.unmapped) for trace in merged.traces.values())
    if unmapped:
        coverage += f"; {unmapped} counters of groups without a name"
    lines.append(
        f"  {coverage}; not reported: {', '.join(unknown_kinds(merged.dumps.facts)) or 'nothing'}"
    )
    lines += [f"  not read: {why}" for why in merged.dumps.rejected]
    unused = _unused(verdict)
    lines += [
        f"  not used: rank {fact.rank}, {fact.kind.value}: {shown(fact.value)} ({why})"
        for fact, why in unused[:MOST_UNUSED_LINES]
    ]
    if len(unused) > MOST_UNUSED_LINES:
        lines.append(f"  not used: {len(unused) - MOST_UNUSED_LINES} more facts")
    return "\n".join(lines)


def _unused(verdict: HangVerdict) -> list[tuple[Fact, str]]:
    """Facts that say nothing about a culprit, each with the reason; those of no rule first."""
    seconds = {origin.rank: origin.seconds for origin in verdict.origins}
    facts = statements(verdict.merged.dumps.facts)
    unread: list[Fact] = []
    beside: list[Fact] = []
    for fact in facts:
        if fact.rank not in seconds:
            (beside if has_rule(fact) else unread).append(fact)
        elif meaning(fact, facts, seconds[fact.rank]) is None:
            unread.append(fact)
    return [
        *((fact, "it matches no rule") for fact in unread),
        *((fact, "its rank is not named") for fact in beside),
    ]


def _hang(verdict: HangVerdict) -> str:
    if not verdict.origins:
        assert verdict.operation is not None
        of = f"among {ranks_in_words(verdict.suspects)}" if verdict.suspects else "unknown"
        return (
            f"The run hangs in {_place(verdict, verdict.operation)}, and no rank can be named"
            f" ({of}): {verdict.reason}."
        )
    clauses: dict[tuple[object, ...], list[Origin]] = {}
    for origin in verdict.origins:
        # Ranks that cannot be distinguished stand in one clause, whatever each of them calls.
        where = _place(verdict, origin.operation) if origin.certain else origin.operation.group
        clauses.setdefault((origin.kind, where, origin.certain), []).append(origin)
    parts = [
        _clause(verdict, _place(verdict, some[0].operation), some) for some in clauses.values()
    ]
    seconds = [origin.seconds for origin in verdict.origins if origin.seconds is not None]
    since = (
        f"for {max(seconds):.0f} s at least"
        if seconds
        else "for how long is unknown, as the files' times are not those of the dumps"
    )
    return f"The run hangs: {'; '.join(parts)} ({since})."


def _clause(verdict: HangVerdict, place: str, some: Sequence[Origin]) -> str:
    first, several = some[0], len(some) > 1
    what = WORDS[first.kind][several]
    who = ranks_in_words(origin.rank for origin in some)
    if not first.certain:
        return f"which of {who} began it, in {place}, is unknown: {_doubt(first)}"
    wait = _waiting_there(verdict, some)
    match first.why:
        case Why.ABSENT | Why.SILENT:
            are = "are" if several else "is"
            return f"{who} {are} missing from {place}{wait}; {what}"
        case Why.UNFINISHED:
            return f"{place} does not end on {who}; {what}"
        case Why.CALLING:
            stands = "stand inside the call of" if several else "stands inside the call of"
            returned = "have not returned from it" if several else "has not returned from it"
            return f"{who} {stands} {place}{f'{wait},' if wait else ''} and {returned}; {what}"
        case Why.UNSTARTED:
            return f"{place} has not started on {who} although it has on the others; {what}"
        case _:
            return f"{who} in {place}{wait}; {what}"


def _doubt(origin: Origin) -> str:
    match origin.why:
        case Why.OPERATION:
            return "they call different operations"
        case Why.SHAPE | Why.DTYPE:
            return "their calls differ in shape or dtype"
        case Why.CALLING:
            return "each stands inside its call"
        case _:
            return "each waits for another"


def _waiting_there(verdict: HangVerdict, some: Sequence[Origin]) -> str:
    """Those who wait in the operation itself."""
    operation = some[0].operation
    ranks = {
        rank
        for rank, waits in verdict.graph.waits.items()
        for wait in waits
        if (wait.operation.group, wait.operation.sequence) == (operation.group, operation.sequence)
        and (wait.operation.transfer is None) == (operation.transfer is None)
    }
    if not ranks:
        return ""
    return f", in which {ranks_in_words(ranks)} wait{'' if len(ranks) > 1 else 's'}"


def _culprit(verdict: HangVerdict, origin: Origin) -> dict[str, Any]:
    return {
        "rank": origin.rank,
        "kind": origin.kind.value,
        "why": origin.why.value,
        **_where(verdict, origin.operation),
        "waiting_ranks": list(origin.waiting),
        "waited_seconds": origin.seconds,
        "confidence": round(origin.confidence, 3),
        "certain_which": origin.certain,
        "evidence": [{"for": fact.kind is not None, "text": fact.text} for fact in origin.facts],
    }


def _where(verdict: HangVerdict, operation: Operation) -> dict[str, Any]:
    members = verdict.merged.members.get(operation.group, ())
    return {
        "group": verdict.merged.described.get(operation.group, operation.group),
        "group_name": operation.group,
        "group_ranks": list(members),
        "op": operation.op,
        "sequence": operation.sequence,
        "point_to_point": operation.transfer is not None,
    }


def _place(verdict: HangVerdict, operation: Operation) -> str:
    group = verdict.merged.described.get(operation.group, operation.group)
    members = verdict.merged.members.get(operation.group, ())
    return (
        f"{operation.op} number {operation.sequence} of group {group} (ranks {stretches(members)})"
    )
