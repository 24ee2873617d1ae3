"""The processes that are one job, the rank of each, and its place in the layout."""

import re
from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.shapes.run import RankInfo
from lockstep.analyzer.shapes.waits import Collectives, Ints, Process

KINDS: tuple[tuple[str, str], ...] = (
    ("tp", r"tp|tensor"),
    ("pp", r"pp|pipe\w*"),
    ("dp", r"dp|data|ddp|fsdp|hsdp|zero\w*|replicate|shard"),
)
"""Words in a group's name -> part of the layout; other groups (experts, context) say nothing."""
WORDS = re.compile(r"[a-z]+", re.ASCII)
ENDED_TOGETHER = 0.5
"""Of a job's length: jobs that end within so much of each other went on side by side."""


@dataclass(frozen=True, slots=True)
class Job:
    """The processes that are judged.

    Attributes:
        collectives: Theirs.
        column: (P,) process of `told.processes` -> place in `ranks`; -1 = of another job.
        ranks: Every rank that should exist.
        missing: What is not known, in words.
    """

    collectives: Collectives
    column: Ints
    ranks: tuple[RankInfo, ...]
    missing: tuple[str, ...]


def job_of(collectives: Collectives) -> Job:
    """The job that reported last, of those with the most processes.

    Processes belong together that share a communicator. A rank is the process's rank in the
    communicator of all; where there is none, its place by host and process number.
    """
    members = _members(collectives)
    label = _together(members, len(collectives.processes))
    mine, missing = _judged(collectives, label)
    collectives = collectives.of(np.isin(collectives.process, mine))
    members = members[np.isin(members[:, 0], mine)]
    numbers, world = _numbered(collectives, members, mine, missing)
    places = _places(collectives, members, numbers)
    by_host: dict[str, list[int]] = {}
    for process in sorted(mine.tolist(), key=lambda one: numbers[one]):
        by_host.setdefault(collectives.processes[process].host, []).append(process)
    infos = {
        numbers[process]: RankInfo(
            numbers[process], host, None, None, place, *places[numbers[process]]
        )
        for host, processes in by_host.items()
        for place, process in enumerate(processes)
    }
    silent = sorted(set(range(world)) - set(infos))
    if silent:
        shown = ", ".join(map(str, silent[:16])) + (", ..." if len(silent) > 16 else "")
        missing.append(
            f"no lines of rank {shown}: the waits in their collectives are unknown for all ranks"
        )
    for rank in silent:
        infos[rank] = RankInfo(rank, "unknown", None, None, 0, *places.get(rank, (rank, 0, 0)))
    ranks = tuple(infos[rank] for rank in sorted(infos))
    place_of = {info.rank: place for place, info in enumerate(ranks)}
    column = np.full(len(collectives.processes), -1, np.int64)
    for process, rank in numbers.items():
        column[process] = place_of[rank]
    return Job(collectives, column, ranks, tuple(missing))


def _members(collectives: Collectives) -> Ints:
    """(M, 3) process, communicator, rank in it: each once."""
    rows = np.column_stack([collectives.process, collectives.communicator, collectives.rank])
    found: Ints = np.unique(rows, axis=0)
    return found


def _together(members: Ints, processes: int) -> Ints:
    """(P,) number of the job of each process."""
    shape = (processes, int(members[:, 1].max()) + 1)
    # A fifth of a second, which who reads an archive need not wait for.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    joined = coo_array((np.ones(len(members)), (members[:, 0], members[:, 1])), shape)
    _, label = connected_components(joined @ joined.T, directed=False)
    found: Ints = label.astype(np.int64)
    return found


def _judged(collectives: Collectives, label: Ints) -> tuple[Ints, list[str]]:
    jobs = np.unique(label)
    ends, sizes = np.full(len(jobs), -np.inf), np.bincount(label, minlength=len(jobs))
    times = np.nan_to_num(collectives.time, nan=0.0)
    np.maximum.at(ends, label[collectives.process], times)
    begins = np.full(len(jobs), np.inf)
    np.minimum.at(begins, label[collectives.process], times)
    last = int(np.argmax(ends))
    late = ends >= ends[last] - ENDED_TOGETHER * (ends[last] - begins[last])
    best = int(np.flatnonzero(late)[np.argmax(sizes[late])])
    mine = np.flatnonzero(label == jobs[best])
    if len(jobs) == 1:
        return mine, []
    words = (
        f"the files are of {len(jobs)} jobs or attempts that share no communicator: judged is that"
        f" of {len(mine)} processes which ended last, {len(label) - len(mine)} are left out"
    )
    return mine, [words]


def _numbered(
    collectives: Collectives, members: Ints, mine: Ints, missing: list[str]
) -> tuple[dict[int, int], int]:
    """Process -> rank, and how many there are."""
    widest = sorted(
        np.unique(members[:, 1]).tolist(),
        key=lambda one: (-collectives.communicators[one].size, one),
    )
    for place in widest:
        of = members[members[:, 1] == place]
        if len(of) == len(mine) == len(np.unique(of[:, 0])) == len(np.unique(of[:, 2])):
            return dict(zip(of[:, 0].tolist(), of[:, 2].tolist(), strict=True)), (
                collectives.communicators[place].size
            )
    missing.append(
        "no communicator has all processes: ranks are numbered by host and process number"
    )
    ordered = sorted(mine.tolist(), key=lambda one: _natural(collectives.processes[one]))
    return {process: rank for rank, process in enumerate(ordered)}, len(ordered)


def _natural(process: Process) -> tuple[list[tuple[int, str]], int]:
    """So that node-10 comes after node-9."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", process.host)
    return [(int(one), "") if one.isdecimal() and one.isascii() else (-1, one) for one in parts], (
        process.pid
    )


def _places(
    collectives: Collectives, members: Ints, numbers: dict[int, int]
) -> dict[int, tuple[int, int, int]]:
    """Rank -> (dp, pp, tp): its ranks in the communicators of these names, and by their traffic.

    Where no name says so, a communicator with transfers from rank to rank is the pipeline's, and
    any other that is not of all ranks one of replicas.
    """
    world = len(numbers)
    piped = set(np.unique(collectives.communicator[collectives.transfers]).tolist())
    found: dict[int, dict[str, int]] = {rank: {} for rank in numbers.values()}
    for process, place, rank in members.tolist():
        one = collectives.communicators[place]
        kind = kind_of(one.name)
        if not kind and place in piped:
            kind = "pp"
        elif not kind and 1 < one.size < world:
            kind = "dp"
        if kind:
            found[numbers[process]].setdefault(kind, rank)
    told_parts = {kind for each in found.values() for kind in each}
    if "dp" not in told_parts:
        # Nobody reported replicas: whoever stands at the same place of the others is one.
        seen: dict[tuple[int, int], int] = {}
        for rank in sorted(found):
            key = (found[rank].get("pp", 0), found[rank].get("tp", 0))
            found[rank]["dp"] = seen[key] = seen.get(key, -1) + 1
    return {
        rank: (each.get("dp", 0), each.get("pp", 0), each.get("tp", 0))
        for rank, each in found.items()
    }


def kind_of(name: str) -> str:
    """Part of the layout that a group's name says; empty where it says none, or several."""
    words = set(WORDS.findall(name.lower()))
    kinds = [kind for kind, form in KINDS if any(re.fullmatch(form, word) for word in words)]
    return kinds[0] if len(kinds) == 1 else ""
