"""What the counters of groups tell where no ring holds an open operation."""

from collections.abc import Iterator
from dataclasses import dataclass

from lockstep.analyzer.hangs.merge import Merged
from lockstep.analyzer.hangs.shapes import GroupTrace, RankTrace

MOST_NAMED = 12
"""Ranks in a sentence."""


@dataclass(frozen=True, slots=True)
class Unheld:
    """Something that is not over and that no ring holds, or that cannot be told.

    Attributes:
        ranks: That others may wait for; () = the counters do not tell.
        reason: In words.
    """

    ranks: tuple[int, ...]
    reason: str


def unheld(merged: Merged, limit: float) -> Unheld | None:
    """The first that speaks against all being over; who did something lately is on its way.

    Args:
        limit: Seconds from which on a rank that does nothing waits.
    """
    still = {rank: one for rank, one in merged.traces.items() if not _is_busy(one, limit)}
    for name in sorted(merged.members):
        begun = dict(_begun(merged, name))
        most = max(begun.values(), default=0)
        behind = tuple(sorted(rank for rank in begun.keys() & still if begun[rank] < most))
        if behind:
            of = f"{_named(behind)} begun fewer operations of {merged.described[name]} than others"
            fewest = min(begun[rank] for rank in behind)
            reason = f"by the counters {of} ({fewest} of {most}), and no dump holds what is open"
            return Unheld(behind if 2 * len(behind) < len(begun) else (), reason)
    inside = tuple(sorted(rank for rank, one in still.items() if _is_inside(merged, one)))
    if inside:
        reason = f"by the counters {_named(inside)} begun more operations than ended"
        return Unheld((), f"{reason}, and no dump holds what is open")
    silent = tuple(sorted(rank for rank, one in merged.traces.items() if not _tells(one)))
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
        count = None if group is None else _count(group)
        if count is not None or not trace.unmapped:
            yield rank, count or 0


def _count(group: GroupTrace) -> int | None:
    told = [each for each in (group.enqueued, group.collectives) if each is not None]
    return max(told, default=None)


def _is_inside(merged: Merged, trace: RankTrace) -> bool:
    """Whether it began what it did not end; what its ring holds is over, whatever counters say."""
    for name, group in trace.groups.items():
        if group.enqueued is None:
            continue
        if name in merged.shared:
            over = {one.sequence for one in trace.recent if one.group == name}
            if group.enqueued not in {group.completed, 0, *over}:
                return True
        elif group.enqueued > max(group.completed or 0, group.collectives or 0):
            return True
    return any((one.enqueued or 0) > (one.completed or 0) for one in trace.unmapped)


def _tells(trace: RankTrace) -> bool:
    counters = (*(_count(group) for group in trace.groups.values()),
                *(one.enqueued for one in trace.unmapped))  # fmt: skip
    return bool(trace.recent or trace.open) or any(each is not None for each in counters)


def _named(ranks: tuple[int, ...]) -> str:
    return f"{_ranks(ranks)} {'has' if len(ranks) == 1 else 'have'}"


def _ranks(ranks: tuple[int, ...]) -> str:
    text = ", ".join(map(str, ranks[:MOST_NAMED]))
    more = f" and {len(ranks) - MOST_NAMED} more" if len(ranks) > MOST_NAMED else ""
    return f"rank{'' if len(ranks) == 1 else 's'} {text}{more}"
