"""One rank's flight-recorder dump: how far it got in every group, and what it is inside."""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.bounded_json import unambiguous
from lockstep.collector.formats.flight_recorder.fields import (
    MAX_ENTRIES,
    PICKLE,
    WRONG,
    is_over,
    members,
    operation_name,
    sequence,
    text,
    whole,
)
from lockstep.collector.formats.flight_recorder.pickled import as_json, many_as_json
from lockstep.collector.readings.source import Rejected, SourceError

NOT_UNDERSTOOD = "not_understood"
"""Reason of what was left out of a dump; the rest of it stands."""
MAX_BYTES = 16 << 20
"""2,000 collectives with stack traces have 3 MB."""
MAX_VALUES = 1_000_000
"""2,000 collectives with stack traces have 300,000."""
MAX_GROUPS = 128
MAX_MEMBERS = 1 << 16
"""Of all groups together; a pickle may name one list again and again."""
MAX_OPEN = 32
"""Open operations kept of a group, the oldest; a rank may have thousands enqueued."""
_KNOWN = re.compile(r"2\.\d{1,4}", re.ASCII)
"""Versions that are read: torch counts up the minor number where it adds members, and the major one
where it changes them (c10d/FlightRecorder.hpp). Read from real dumps and sources: 2.4, 2.5, 2.9
(nccl_version), 2.10 (comm_lib_version)."""
WORLD = ("default_pg", "0")
"""Description and name of the group of all ranks."""

_NAME = re.compile(r"[ -~]{1,256}", re.ASCII)
"""torch's names of groups are numbers, or hashes."""


class BoundError(ValueError):
    """A dump has more of something than torch writes."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A collective that had not completed; `waited_seconds` when the dump was written."""

    sequence: int
    op: str
    waited_seconds: float


@dataclass(frozen=True, slots=True)
class GroupState:
    """One process group as one rank saw it; a sequence counts from 1, None = not told.

    Attributes:
        name: torch's own, the same on all ranks and for no other group.
        group: Its description; several groups may share one.
        members: Its ranks; empty where torch does not tell (gloo).
        open: What had not completed, oldest first.
    """

    name: str
    group: str
    members: tuple[int, ...] = ()
    enqueued: int | None = None
    started: int | None = None
    completed: int | None = None
    open: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True)
class Dump:
    """One rank's dump.

    Attributes:
        written_at: Unix time.
        version: Of the format, as torch writes it.
        library: Version of NCCL, or of what else communicates; "" = not told.
    """

    run: str
    rank: int
    written_at: float
    groups: tuple[GroupState, ...]
    rejected: tuple[Rejected, ...] = ()
    version: str = ""
    library: str = ""


@dataclass(slots=True)
class _Group:
    """A group as it is put together."""

    state: GroupState
    entries: list[Mapping[str, Any]] = field(default_factory=list)
    told: bool = False
    """pg_status has it."""
    broken: bool = False
    """Not all its entries are understood."""


def parse(data: bytes, run: str, rank: int, written_at: float) -> Dump:
    """A dump in either format, told apart by its first byte.

    Raises:
        SourceError: Neither format, code in the pickle, or not what torch writes.
    """
    tree = _json(as_json(data) if data[:1] == PICKLE else data)
    rejected: list[Rejected] = []
    try:
        version = text(tree["version"])[:20]
        if not _KNOWN.fullmatch(version):
            rejected.append(Rejected("version", f"dump of version {version!r}; known are all 2.x"))
        groups = tuple(_groups(tree, written_at, rejected))
        library = tree.get("nccl_version") or tree.get("comm_lib_version") or ""
    except WRONG as error:
        why = f"{type(error).__name__}: {error}"[:160]
        raise SourceError("content", f"the dump does not hold together: {why}") from error
    shown = library[:40] if isinstance(library, str) and library.isprintable() else ""
    return Dump(run, rank, written_at, groups, tuple(rejected), version, shown)


def _json(data: bytes) -> Any:
    # An empty list weighs three bytes in the file and sixty in memory.
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise SourceError("too_large", f"a dump of over {MAX_VALUES} values")
    try:
        return bounded_json.loads(data, parse_constant=_refused, members=unambiguous)
    except ValueError as error:
        raise SourceError("content", f"neither a pickle nor JSON: {error}"[:160]) from error


def _groups(
    tree: Mapping[str, Any], written_at: float, rejected: list[Rejected]
) -> Iterator[GroupState]:
    entries = tree.get("entries", [])
    if len(entries) > MAX_ENTRIES:
        raise ValueError(f"{len(entries)} entries")
    configured = tree.get("pg_config", {})
    statuses = tree.get("pg_status")
    groups: dict[str, _Group] = {}
    names: dict[str, str] = {}
    anywhere = False

    def add(key: str, name: Any, description: Any) -> None:
        groups[key] = _Group(_named(name, description, configured))
        members = sum(len(group.state.members) for group in groups.values())
        if len(groups) > MAX_GROUPS or members > MAX_MEMBERS:
            raise BoundError(f"over {MAX_GROUPS} groups, or {MAX_MEMBERS} ranks in them")

    for entry in entries:
        key = ""
        try:
            key = str(whole(entry["pg_id"]))
            name, description = entry["process_group"]
            names[key] = text(name)
            if not entry.get("is_p2p", False):
                if key not in groups:
                    add(key, name, description)
                groups[key].entries.append(_checked(entry))
        except BoundError:
            raise
        except WRONG as error:
            rejected.append(_left_out("an entry", error))
            if key in groups:
                groups[key].broken = True
            anywhere |= key not in groups
    for key, status in (statuses or {}).items():
        try:
            if key not in groups:
                # Its entries were overwritten.
                name = _name_of(key, names, configured, statuses or {})
                if name is None:
                    words = f"the status of group {key[:20]!r}, whose name is not given"
                    rejected.append(Rejected(NOT_UNDERSTOOD, words))
                    continue
                add(key, name, "")
            group = groups[key]
            group.told = True
            group.state = replace(
                group.state,
                enqueued=sequence(status.get("last_enqueued_collective")),
                started=sequence(status.get("last_started_collective")),
                completed=sequence(status.get("last_completed_collective")),
            )
        except BoundError:
            raise
        except WRONG as error:
            rejected.append(_left_out("the status of a group", error))
    for group in groups.values():
        group.broken |= anywhere
        yield _finished(group, written_at, not statuses)


def _left_out(what: str, error: Exception) -> Rejected:
    words = f"{what} is left out of a dump: {type(error).__name__}: {error}"[:200]
    return Rejected(NOT_UNDERSTOOD, words)


def _name_of(
    key: str, names: Mapping[str, str], configured: Mapping[str, Any], statuses: Mapping[str, Any]
) -> str | None:
    """Torch's name of a group of which there is no entry; None = not known.

    Statuses have the number that the group has in this process, and the configuration has its name,
    which is a number counted through all processes. Both count up in the order in which the groups
    were made: where there are as many of one as of the other, the n-th is the n-th. A dump whose
    entries say otherwise is not such a one.
    """
    numbers, words = [*statuses], [*configured]
    if not all(re.fullmatch(r"[0-9]{1,9}", word) for word in (*numbers, *words)):
        return key if key == "0" else None
    pairs = dict(zip(sorted(numbers, key=int), sorted(words, key=int), strict=False))
    if len(numbers) == len(words) and all(pairs.get(number) == names[number] for number in names):
        return pairs[key]
    # The first group of all is that of all ranks.
    return key if key == "0" else None


def _checked(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry, once all that is read of it makes sense."""
    whole(entry["collective_seq_id"])
    if not _is_done(entry):
        _operation(entry, 0.0)
    return entry


def _named(name: Any, description: Any, configured: Mapping[str, Any]) -> GroupState:
    """A group by its name; torch calls a group without a description "undefined"."""
    if not _NAME.fullmatch(text(name)):
        raise ValueError(f"{name[:40]!r} is no name of a group")
    config = configured.get(name)
    config = config if isinstance(config, dict) else {}
    words = text(description or config.get("desc", ""))
    group = name if words in ("", "undefined") else words
    if group in WORLD:
        group = "world"
    if not group.isprintable():
        raise ValueError(f"{group[:40]!r} is no name of a group")
    return GroupState(name, group[:64] or "world", tuple(sorted(members(config.get("ranks", ())))))


def _finished(group: _Group, written_at: float, without_statuses: bool) -> GroupState:
    """With what the entries show: operations that are open, and all where there is no pg_status.

    Of a group whose entries are not all understood, they tell nothing.
    """
    state = group.state
    gloo = any(_on_gloo(entry) for entry in group.entries)
    if group.broken:
        return replace(state, enqueued=None, completed=None) if gloo else state
    done = [whole(entry["collective_seq_id"]) for entry in group.entries if _is_done(entry)]
    every = [whole(entry["collective_seq_id"]) for entry in group.entries]
    if gloo:
        # Gloo's pg_status counts transfers from rank to rank, too, and the entries do not. What
        # went before the oldest entry is over.
        state = replace(state, enqueued=None, completed=min(every) - 1 or None)
    if state.enqueued is None and every and (gloo or without_statuses):
        state = replace(state, enqueued=max(every))
    if done:
        state = replace(state, completed=max(state.completed or 0, *done))
    behind = state.completed or 0
    waiting = sorted(
        (
            _operation(entry, written_at)
            for entry in group.entries
            # Gloo may end overlapped operations in another order than they began.
            if (_on_gloo(entry) or entry["collective_seq_id"] > behind) and not _is_done(entry)
        ),
        key=lambda operation: operation.sequence,
    )
    return replace(state, open=tuple(waiting[:MAX_OPEN]))


def _is_done(entry: Mapping[str, Any]) -> bool:
    return is_over(entry, "gloo" if _on_gloo(entry) else "")


def _on_gloo(entry: Mapping[str, Any]) -> bool:
    return text(entry["profiling_name"]).startswith("gloo:")


def _operation(entry: Mapping[str, Any], written_at: float) -> Operation:
    name = operation_name(entry["profiling_name"])
    since = whole(entry["time_created_ns"]) / 1e9
    return Operation(whole(entry["collective_seq_id"]), name.op, max(0.0, written_at - since))


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")


# Many dumps at once, as their trees: a child process reads as many pickles as its bounds allow.

BATCH_BYTES = 8 << 20
"""Half of what a child is known to read within its bounds."""
CHILDREN = 2
"""At once: dumps may be sent from a node that still trains."""


def trees(dumps: Sequence[bytes]) -> Iterator[Any | SourceError]:
    """The tree of each dump in their order, or why it has none; no pickle is executed."""
    with ThreadPoolExecutor(CHILDREN) as pool:
        for batch, answers in pool.map(_converted, _batches(dumps)):
            for data, answer in zip(batch, answers, strict=True):
                yield answer if isinstance(answer, SourceError) else _tree(answer or data)


def _batches(dumps: Sequence[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for data in dumps:
        if batch and size + len(data) > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(data)
        size += len(data)
    if batch:
        yield batch


def _converted(batch: list[bytes]) -> tuple[list[bytes], list[bytes | SourceError | None]]:
    """The JSON of each pickle; None = it is no pickle."""
    answers: list[bytes | SourceError | None] = [None] * len(batch)
    pickles = [index for index, data in enumerate(batch) if data[:1] == PICKLE]
    small = [index for index in pickles if len(batch[index]) <= MAX_BYTES]
    for index in pickles:
        answers[index] = SourceError("too_large", f"a dump of over {MAX_BYTES >> 20} MiB")
    for index, answer in zip(small, many_as_json([batch[each] for each in small]), strict=True):
        answers[index] = answer
    return batch, answers


def _tree(text: bytes) -> Any | SourceError:
    if len(text) > MAX_BYTES:
        return SourceError("too_large", f"a dump of over {MAX_BYTES >> 20} MiB")
    # An empty list weighs three bytes in the file and sixty in memory.
    if sum(map(text.count, (b",", b"[", b"{"))) > MAX_VALUES:
        return SourceError("too_large", f"a dump of over {MAX_VALUES} values")
    try:
        return bounded_json.loads(text, parse_constant=_refused)
    except ValueError as error:
        return SourceError("content", f"neither a pickle nor JSON: {error}"[:160])
