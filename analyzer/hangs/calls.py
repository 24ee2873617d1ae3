"""Which ranks call another operation than the others do, by the number that it has in its group."""

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum

from lockstep.analyzer.hangs.merge import Key, Merged
from lockstep.analyzer.hangs.shapes import Operation

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
        calls = {rank: _call(one, why) for rank, one in held.items()}
        counts = Counter(calls.values())
        if len(counts) > 1 and (why is Why.OPERATION or () not in counts):
            (usual, most), (_, second) = counts.most_common(2)
            if most > second:
                return {rank: why for rank, call in calls.items() if call != usual}
            elsewhere = Counter(_call(one, why) for one in _alike(merged, key))
            if elsewhere and (expected := elsewhere.most_common(1)[0][0]) in counts:
                return {rank: why for rank, call in calls.items() if call != expected}
            return dict.fromkeys(calls, why)
    return {}


def _call(one: Operation, why: Why) -> object:
    """What of a call all ranks must agree on."""
    if why is Why.OPERATION:
        return RELATED.get(one.op, one.op)
    if why is Why.DTYPE:
        return one.dtypes
    return () if one.op in UNSIZED else one.inputs


def _alike(merged: Merged, key: Key) -> Iterator[Operation]:
    """The calls of this number in other groups of the same description."""
    group, sequence = key
    for name, description in merged.described.items():
        if name != group and description == merged.described[group]:
            yield from merged.collectives.get((name, sequence), {}).values()
