"""The tree of a flight-recorder dump (torch's FlightRecorder, pickle or JSON), as a RankTrace.

Fields are those of torch/csrc/distributed/c10d/FlightRecorderDetail.hpp (getCollectiveTrace,
getPgConfig). Whatever a field holds, it is looked at before it is used: dumps come from outside.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from lockstep.analyzer.hangs.dumps import (
    WORLD,
    GroupTrace,
    Operation,
    RankTrace,
    State,
    Transfer,
    Unmapped,
)
from lockstep.collector.formats.flight_recorder.fields import (
    MAX_ENTRIES,
    NONE_YET,
    WRONG,
    count,
    is_over,
    members,
    operation_name,
    sequence,
    text,
    whole,
)


def names_by_handle(
    handles: Collection[int], names: Iterable[str], known: Mapping[int, str]
) -> dict[int, str]:  # fmt: skip
    """Names of groups by a rank's own number for each, as far as they are certain.

    torch keeps counters by a number (handle) that each process gives its groups as it makes them,
    and names and members by the group's name, which new_group counts up on all ranks alike
    (torch/distributed/distributed_c10d.py, _process_group_name). Operations in the ring have both.
    The ring of a rank that waits for nothing is empty: its order alone says which is which, as both
    count up when groups are made. Between two that are known, as many handles as names are the same
    ones in the same order. Where the counts differ only one of each is certain.

    Args:
        handles: Of all groups with counters.
        names: Of all groups that the rank is in.
        known: Names by handle in the ring.
    """
    by_handle = dict(known)
    names = set(names)
    if not names and 0 in handles and WORLD not in known.values():
        by_handle.setdefault(0, WORLD)  # the first that a process makes
    rest = sorted(set(handles) - by_handle.keys())
    free = names - set(known.values())
    ordered = sorted((name for name in free if name.isdecimal()), key=int)
    anchors = sorted((handle, int(name)) for handle, name in known.items() if name.isdecimal())
    if any(a[1] >= b[1] for a, b in pairwise(anchors)):
        return by_handle  # they were not made in the order of their names
    if len(ordered) != len(free):
        if len(free) == len(rest) == 1:
            by_handle[rest[0]] = free.pop()
        return by_handle
    numbers = [int(name) for name in ordered]
    low_handle, low_name = 0, 0
    for handle, number in [*anchors, (1 << 63, 1 << 63)]:
        to_handle, to_name = bisect_left(rest, handle), bisect_left(numbers, number)
        if to_handle - low_handle == to_name - low_name:
            by_handle.update(
                zip(rest[low_handle:to_handle], ordered[low_name:to_name], strict=True)
            )
        low_handle, low_name = to_handle, to_name
    return by_handle


MAX_GROUPS = 4096
MAX_MEMBERS = 1 << 20
"""Of all groups of one dump together."""
MAX_OPEN = 4096
RECENT = 8
"""Completed operations kept of a group: of a hang only the last matter."""
KNOWN_VERSIONS = frozenset(("2.4", "2.5", "2.9", "2.10"))
PLAUSIBLE_SECONDS = 2 * 3600.0
"""A file written later after its last operation than this (and thrice the time-out) is a copy: its
time is not the dump's."""
TIME_OUTS = 3.0


class TreeError(ValueError):
    """The tree is none of a dump; the text says why."""


def parse(tree: Any, rank: int, written: float | None) -> RankTrace:
    """One rank's dump.

    Args:
        written: When the file was written, Unix time; a time that cannot be the dump's is dropped.

    Raises:
        TreeError: It is no dump, or its fields are not what torch writes.
    """
    if not isinstance(tree, dict) or not ({"entries", "pg_status"} & tree.keys()):
        raise TreeError("it is no flight-recorder dump: neither entries nor pg_status are in it")
    try:
        return _parsed(tree, rank, written)
    except WRONG as error:
        why = f"{type(error).__name__}: {error}"[:160]
        raise TreeError(f"the dump does not hold together: {why}") from error


def _parsed(tree: Mapping[str, Any], rank: int, written: float | None) -> RankTrace:
    version = text(tree.get("version", ""))[:20]
    notes = [] if version in KNOWN_VERSIONS else [f"dump of version {version!r}"]
    entries = tree.get("entries") or []
    if not isinstance(entries, list) or len(entries) > MAX_ENTRIES:
        raise ValueError("entries is no list, or one of over 100,000")
    handles: dict[int, str] = {}
    described: dict[str, str] = {}
    waiting: list[Operation] = []
    recent: dict[tuple[str, bool], deque[Operation]] = defaultdict(lambda: deque(maxlen=RECENT))
    collectives: dict[str, int] = {}
    transfers: set[str] = set()
    backend, timeout = "", 0.0
    quiet, last = _quiet(entries)
    quiet_ns = tree.get("longest_quiet_ns")  # by who dropped what is over, which makes gaps
    quiet = quiet if quiet_ns is None else whole(quiet_ns) / 1e9
    for number, entry in _that_matter(entries):
        operation, handle, description, spoke = _operation(entry, number)
        if operation is None:
            continue
        backend = spoke or backend
        handles[handle] = operation.group
        described.setdefault(operation.group, description)
        (
            waiting.append
            if not operation.done
            else recent[operation.group, operation.transfer is None].append
        )(operation)
        if operation.transfer is None:
            collectives[operation.group] = max(
                collectives.get(operation.group, 0), operation.sequence
            )
        else:
            transfers.add(operation.group)
            # The collectives before it, which torch tells with each transfer.
            before = count(entry.get("collective_seq_id"))
            if before is not None:
                collectives[operation.group] = max(collectives.get(operation.group, 0), before)
        timeout = max(timeout, operation.timeout or 0.0)
    groups, unmapped = _groups(tree, handles, described, collectives, transfers, backend)
    waiting = [_with_start(operation, groups.get(operation.group)) for operation in waiting]
    waiting.sort(key=lambda operation: operation.order)
    return RankTrace(
        rank=rank,
        written=_moment(written, last, timeout),
        last_event=last,
        quiet=quiet,
        groups=groups,
        open=tuple(waiting[:MAX_OPEN]),
        recent=tuple(operation for some in recent.values() for operation in some),
        unmapped=unmapped,
        backend=backend,
        version=version,
        notes=tuple(notes),
    )


def _that_matter(entries: Sequence[Any]) -> list[tuple[int, Any]]:
    """All that may be open, and of what is over the last of each group."""
    seen: dict[tuple[Any, Any], int] = defaultdict(int)
    entries_kept = []
    for number in range(len(entries) - 1, -1, -1):
        entry = entries[number]
        if entry.get("state") == State.COMPLETED or entry.get("retired") is True:
            key = (whole(entry["pg_id"]), entry.get("is_p2p") is True)
            seen[key] += 1
            # Retired is over on gloo, and given up on NCCL, and `_operation` distinguishes them.
            if seen[key] > RECENT and entry.get("state") == State.COMPLETED:
                continue
            if seen[key] > MAX_OPEN:
                continue
        entries_kept.append((number, entry))
    entries_kept.reverse()
    return entries_kept


def _quiet(entries: Sequence[Any]) -> tuple[float, float | None]:
    """(longest time between two operations or in one, the last thing that happened), seconds."""
    longest, last, before = 0, 0, 0
    for entry in entries:
        created = whole(entry["time_created_ns"])
        started = entry.get("time_discovered_started_ns") or 0
        ended = entry.get("time_discovered_completed_ns") or 0
        if before:
            longest = max(longest, created - before)
        before = created
        if ended:
            longest = max(longest, whole(ended) - created)
        last = max(last, created, whole(started), ended)
    return longest / 1e9, last / 1e9 if last else None


def _moment(written: float | None, last: float | None, timeout: float) -> float | None:
    """The file's time, if it can be that of the dump."""
    if written is None or last is None:
        return written
    late = written - last
    return written if -1.0 <= late <= max(PLAUSIBLE_SECONDS, TIME_OUTS * timeout) else None


def _operation(
    entry: Mapping[str, Any], number: int
) -> tuple[Operation | None, int, str, str]:  # fmt: skip
    """(operation, the group's handle, its description, the backend); None = nothing is reported."""
    name_of = operation_name(entry["profiling_name"])
    handle, backend = whole(entry["pg_id"]), name_of.backend
    name, description = _group_of(entry, handle)
    is_transfer = bool(entry.get("is_p2p", False))
    sequence = count(entry.get("p2p_seq_id" if is_transfer else "collective_seq_id"))
    if sequence is None:
        sequence = whole(entry["seq_id"])  # torch 2.3 and older: one count for both
    transfer = None
    if is_transfer:
        if name_of.me is None or name_of.peer is None:
            # The launch of several transfers, which are recorded one by one, too.
            return None, handle, description, backend
        transfer = Transfer(name_of.me, name_of.peer, sends=name_of.sends)
    retired, state = entry.get("retired") is True, State(entry.get("state", State.SCHEDULED))
    if is_over(entry, backend):
        state = State.COMPLETED
    if state is State.SCHEDULED and count(entry.get("time_discovered_started_ns")):
        state = State.STARTED
    order, timeout = count(entry.get("record_id")), count(entry.get("timeout_ms"))
    completed = count(entry.get("time_discovered_completed_ns"))
    done = state is State.COMPLETED
    return (
        Operation(
            group=name,
            sequence=sequence,
            op=name_of.op,
            order=number if order is None else order,
            created=whole(entry["time_created_ns"]) / 1e9,
            state=state,
            inputs=_shapes(entry.get("input_sizes")),
            dtypes=_texts(entry.get("input_dtypes")),
            transfer=transfer,
            retired=retired,
            completed=completed / 1e9 if done and completed else None,
            timeout=None if timeout is None else timeout / 1e3,
        ),
        handle,
        description,
        backend,
    )


def _with_start(operation: Operation, group: GroupTrace | None) -> Operation:
    """An open collective, as started where the counter of its group says so."""
    if group is None or group.transfers or operation.transfer is not None:
        return operation
    if operation.state is not State.SCHEDULED or (group.started or 0) < operation.sequence:
        return operation
    return replace(operation, state=State.STARTED)


def _group_of(entry: Mapping[str, Any], handle: int) -> tuple[str, str]:
    group = entry.get("process_group")
    if group is None:  # torch 2.3 and older
        name = entry.get("pg_name")
        return (text(name) if isinstance(name, str) else str(handle)), ""
    name, description = group
    if len(text(name)) > 256 or len(text(description)) > 256:
        raise ValueError("a group's name has over 256 characters")
    return name or "0", description


def _groups(
    tree: Mapping[str, Any],
    handles: dict[int, str],
    described: Mapping[str, str],
    collectives: Mapping[str, int],
    transfers: set[str],
    backend: str,
) -> tuple[dict[str, GroupTrace], tuple[Unmapped, ...]]:
    configured = _configured(tree.get("pg_config") or {})
    status = {
        int(key): counters
        for key, counters in (tree.get("pg_status") or {}).items()
        # int() takes the digits of all scripts.
        if isinstance(counters, dict) and str(key).isascii() and str(key).isdecimal()
    }
    if len(status) > MAX_GROUPS or len(configured) > MAX_GROUPS:
        raise ValueError(f"over {MAX_GROUPS} groups")
    named_handles = names_by_handle(status.keys() | handles.keys(), configured.keys(), handles)
    by_name = {name: handle for handle, name in named_handles.items()}
    groups = {}
    for name in dict.fromkeys((*configured, *by_name, *described)):
        description, members = configured.get(name, ("", ()))
        counters = status.get(by_name.get(name, NONE_YET), {})
        # Gloo's status counts transfers, too, which its entries do not show.
        counts = {} if backend == "gloo" and name in collectives else counters
        groups[name] = GroupTrace(
            name=name,
            description=_described(name, described.get(name) or description),
            members=members,
            enqueued=sequence(counts.get("last_enqueued_collective")),
            started=sequence(counts.get("last_started_collective")),
            completed=sequence(counts.get("last_completed_collective")),
            collectives=collectives.get(name),
            transfers=name in transfers,
        )
    unmapped = tuple(
        Unmapped(
            handle,
            sequence(status[handle].get("last_enqueued_collective")),
            sequence(status[handle].get("last_completed_collective")),
        )
        for handle in sorted(status.keys() - named_handles.keys())
    )
    return groups, unmapped


def _described(name: str, description: str) -> str:
    if description in ("", "undefined"):
        description = name
    text = "world" if description in ("default_pg", "0") else description
    return text[:64] if text.isprintable() else name[:64]


def _configured(configuration: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    by_name: dict[str, tuple[str, tuple[int, ...]]] = {}
    total = 0
    for key, one in configuration.items():
        if not isinstance(one, dict):
            continue
        name = str(one.get("name") or key)
        ranks = members(one.get("ranks", ()))
        total += len(ranks)
        if total > MAX_MEMBERS:
            raise ValueError(f"over {MAX_MEMBERS} ranks in the groups")
        if name:
            by_name[name] = (str(one.get("desc", "")), ranks)
    return by_name


def _shapes(value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(tuple(map(whole, shape)) for shape in value[:64] if isinstance(shape, list))


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(text(each)[:32] for each in value[:64])
