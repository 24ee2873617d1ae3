"""Which dumps of a folder are of one job, and of which rank each is."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from lockstep.analyzer.hangs.dumps import WORLD, Dumps, Fact, RankTrace
from lockstep.collector.contract.stacks import Stacks

APART_SECONDS = 3600.0
"""Dumps whose last operations are further apart are of two runs: what was left there earlier."""


@dataclass(frozen=True, slots=True)
class NamedDump:
    """A dump and what stands before the rank in its path."""

    name: str
    trace: RankTrace


def jobs(
    dumps: Sequence[NamedDump],
    facts: Mapping[str, Sequence[Fact]] | None = None,
    stacks: Mapping[str, Sequence[Stacks]] | None = None,
) -> list[tuple[str, Dumps]]:
    """The jobs in a folder, each with its name, the newest first.

    Facts and stacks are by the folder in which they lie ("." = the uppermost), and about the newest
    job of which dumps lie in the same one.

    Dumps are of one job if their paths differ by the rank alone, they are of one time, and they
    list the same ranks of the world. Folders that hold different ranks of one world at one time,
    as of one node each, are one job too.
    """
    by_name: dict[str, list[RankTrace]] = defaultdict(list)
    for dump in dumps:
        by_name[dump.name].append(dump.trace)
    clusters = [
        (name, cluster)
        for name in sorted(by_name)
        for cluster in _clusters(_numbered(by_name[name]))
    ]
    merged: list[tuple[list[str], list[RankTrace]]] = []
    for name, cluster in sorted(clusters, key=lambda one: -_last(one[1])):
        for names, other in merged:
            if name not in names and _is_one(cluster, other):
                names.append(name)
                other += cluster
                break
        else:
            merged.append(([name], cluster))
    told, stood = dict(facts or {}), dict(stacks or {})
    beside = [
        [(told.pop(each, ()), stood.pop(each, ())) for each in dict.fromkeys(map(_folder, names))]
        for names, _ in merged
    ]
    return [
        (
            names[0],
            Dumps(
                {trace.rank: trace for trace in sorted(some, key=lambda trace: trace.rank)},
                _ranks(some, _facts(near)),
                _facts(near),
                stacks=_by_rank([stacks for _, some_stacks in near for stacks in some_stacks]),
            ),
        )
        for (names, some), near in zip(merged, beside, strict=True)
    ]


def _facts(near: Sequence[tuple[Sequence[Fact], Sequence[Stacks]]]) -> tuple[Fact, ...]:
    return tuple(fact for some, _ in near for fact in some)


def _by_rank(all_stacks: Sequence[Stacks]) -> tuple[Stacks, ...]:
    """The newest of each rank."""
    ordered = sorted(all_stacks, key=lambda stacks: stacks.taken)
    newest = {stacks.rank: stacks for stacks in ordered}
    return tuple(newest[rank] for rank in sorted(newest))


def _ranks(traces: Sequence[RankTrace], facts: Sequence[Fact]) -> tuple[int, ...]:
    """As dumps list them; gloo's list none, and then the last may be one that only facts tell."""
    listed = _world(traces)
    known = {trace.rank for trace in traces} | {fact.rank for fact in facts}
    return tuple(sorted(listed or range(max(known) + 1)))


def _folder(name: str) -> str:
    return str(PurePath(name).parent)


def _numbered(traces: Sequence[RankTrace]) -> list[RankTrace]:
    """With the ranks that the groups tell, where the files are numbered within something else."""
    own = [_own_rank(trace) for trace in traces]
    if None in own or len(set(own)) < len(own) or own == [trace.rank for trace in traces]:
        return list(traces)
    return [replace(trace, rank=rank) for trace, rank in zip(traces, own, strict=True)]  # type: ignore[arg-type]


def _own_rank(trace: RankTrace) -> int | None:
    """The only member of all groups of the dump; the file's number where that may be."""
    lists = [set(group.members) for group in trace.groups.values() if group.members]
    if not lists:
        return None
    common = set.intersection(*lists)
    if trace.rank in common:
        return trace.rank
    return common.pop() if len(common) == 1 else None


def _clusters(traces: Sequence[RankTrace]) -> list[list[RankTrace]]:
    """By world and time; what tells neither goes where its rank lacks, the newest first."""
    by_world: dict[frozenset[int], list[RankTrace]] = defaultdict(list)
    vague = []
    for trace in traces:
        world = _world([trace])
        if trace.last_event is None or not world:
            vague.append(trace)
        else:
            by_world[world].append(trace)
    clusters: list[list[RankTrace]] = []
    for some in by_world.values():
        some.sort(key=lambda trace: trace.last_event or 0.0)
        current = [some[0]]
        for trace in some[1:]:
            if (trace.last_event or 0.0) - (current[-1].last_event or 0.0) > APART_SECONDS:
                clusters.append(current)
                current = []
            current.append(trace)
        clusters.append(current)
    clusters.sort(key=_last, reverse=True)
    for trace in vague:
        for some in clusters:
            if _fits(trace, some):
                some.append(trace)
                break
        else:
            clusters.append([trace])
    return clusters


def _fits(trace: RankTrace, cluster: Sequence[RankTrace]) -> bool:
    world, theirs = _world([trace]), _world(cluster)
    if world and theirs and world != theirs:
        return False
    last = trace.last_event
    near = last is None or abs(_last(cluster) - last) <= APART_SECONDS or _last(cluster) < 0
    return near and all(trace.rank != other.rank for other in cluster)


def _is_one(cluster: Sequence[RankTrace], other: Sequence[RankTrace]) -> bool:
    mine, theirs = ({trace.rank for trace in some} for some in (cluster, other))
    world = _world(cluster)
    return (
        bool(world)
        and world == _world(other)
        and not mine & theirs
        and abs(_last(cluster) - _last(other)) <= APART_SECONDS
    )


def _world(traces: Sequence[RankTrace]) -> frozenset[int]:
    """The ranks of the world, as most dumps list them; empty = none does."""
    counts: Mapping[frozenset[int], int] = Counter(
        frozenset(trace.groups[WORLD].members)
        for trace in traces
        if WORLD in trace.groups and trace.groups[WORLD].members
    )
    return max(counts, key=lambda one: (counts[one], len(one)), default=frozenset())


def _last(traces: Sequence[RankTrace]) -> float:
    return max((trace.last_event or -1.0 for trace in traces), default=-1.0)
