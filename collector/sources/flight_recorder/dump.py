"""One rank's flight-recorder dump: how far it got in every group, and what it is inside."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from collector.contract import bounded_json
from collector.reading import Rejected, SourceError
from collector.sources.flight_recorder.pickled import as_json

MAX_BYTES = 16 << 20
"""2,000 collectives with stack traces have 3 MB."""
MAX_VALUES = 1_000_000
"""2,000 collectives with stack traces have 300,000."""
MAX_ENTRIES = 100_000
MAX_GROUPS = 128
MAX_MEMBERS = 1 << 16
"""Of all groups together; a pickle may name one list again and again."""
MAX_OPEN = 32
"""Open operations kept of a group, the oldest; a rank may have thousands enqueued."""
KNOWN_VERSIONS = frozenset(("2.4", "2.5", "2.10"))
NONE_YET = -1
"""What torch tells as the last collective where there was none, or where the backend is silent."""
WORLD = ("default_pg", "0")
"""Description and name of the group of all ranks."""

_OPERATION = re.compile(r"(?:[a-z]{1,16}:)?([a-zA-Z_]\w{0,47})(?: \d{1,9}(?:->|<-)\d{1,9})?", re.A)
_NUMBERS = re.compile(r"\[?\s*(\d{1,9}(?:\s*,\s*\d{1,9})*)?\s*\]?", re.ASCII)


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
    """One rank's dump; `written_at` is Unix time."""

    run: str
    rank: int
    written_at: float
    groups: tuple[GroupState, ...]
    rejected: tuple[Rejected, ...] = ()


@dataclass(slots=True)
class _Group:
    """A group as it is put together."""

    state: GroupState
    entries: list[Mapping[str, Any]] = field(default_factory=list)


def parse(data: bytes, run: str, rank: int, written_at: float) -> Dump:
    """A dump in either format, told apart by its first byte.

    Raises:
        SourceError: Neither format, code in the pickle, or not what torch writes.
    """
    tree = _json(as_json(data) if data[:1] == b"\x80" else data)
    rejected: tuple[Rejected, ...] = ()
    try:
        version = _text(tree["version"])[:20]
        if version not in KNOWN_VERSIONS:
            words = f"dump of version {version!r}; known are {', '.join(sorted(KNOWN_VERSIONS))}"
            rejected = (Rejected("version", words),)
        groups = tuple(_groups(tree, written_at))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        why = f"{type(error).__name__}: {error}"[:160]
        raise SourceError("content", f"the dump does not hold together: {why}") from error
    return Dump(run, rank, written_at, groups, rejected)


def _json(data: bytes) -> Any:
    # An empty list weighs three bytes in the file and sixty in memory.
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise SourceError("too_large", f"a dump of over {MAX_VALUES} values")
    try:
        return bounded_json.loads(data, parse_constant=_refused)
    except ValueError as error:
        raise SourceError("content", f"neither a pickle nor JSON: {error}"[:160]) from error


def _groups(tree: Mapping[str, Any], written_at: float) -> Iterator[GroupState]:
    entries = tree.get("entries", [])
    if len(entries) > MAX_ENTRIES:
        raise ValueError(f"{len(entries)} entries")
    configured = tree.get("pg_config", {})
    found: dict[str, _Group] = {}

    def add(key: str, name: Any, description: Any) -> None:
        found[key] = _Group(_named(name, description, configured))
        members = sum(len(one.state.members) for one in found.values())
        if len(found) > MAX_GROUPS or members > MAX_MEMBERS:
            raise ValueError(f"over {MAX_GROUPS} groups, or {MAX_MEMBERS} ranks in them")

    for entry in entries:
        if not entry.get("is_p2p", False):
            key = str(_whole(entry["pg_id"]))
            if key not in found:
                name, description = entry["process_group"]
                add(key, name, description)
            found[key].entries.append(entry)
    for key, told in tree.get("pg_status", {}).items():
        if key not in found:  # its entries were overwritten: the number is torch's name for it
            add(key, key, "")
        one = found[key]
        one.state = replace(
            one.state,
            enqueued=_sequence(told, "last_enqueued_collective"),
            started=_sequence(told, "last_started_collective"),
            completed=_sequence(told, "last_completed_collective"),
        )
    for one in found.values():
        yield _finished(one, written_at)


def _named(name: Any, description: Any, configured: Mapping[str, Any]) -> GroupState:
    """A group by its name; torch calls a group without a description "undefined"."""
    if len(_text(name)) > 256:
        raise ValueError("a group's name has over 256 characters")
    told = configured.get(name, {})
    words = _text(description or told.get("desc", ""))
    group = name if words in ("", "undefined") else words
    if group in WORLD:
        group = "world"
    if not group.isprintable():
        raise ValueError(f"{group[:40]!r} is no name of a group")
    return GroupState(name, group[:64] or "world", _members(told.get("ranks", ())))


def _members(ranks: Any) -> tuple[int, ...]:
    """From a list, or from the text of one, as pg_config has it."""
    if isinstance(ranks, str):
        match = _NUMBERS.fullmatch(ranks)
        if match is None:
            raise ValueError(f"{ranks[:40]!r} are no ranks")
        ranks = [int(rank) for rank in (match[1] or "").split(",") if rank]
    return tuple(sorted({_whole(rank) for rank in ranks}))


def _sequence(told: Mapping[str, Any], name: str) -> int | None:
    value = told.get(name)
    if isinstance(value, str):
        value = int(value)
    if value is None or value == NONE_YET:
        return None
    return _whole(value)


def _finished(one: _Group, written_at: float) -> GroupState:
    """With what the entries tell: operations that are open, and all where there is no pg_status."""
    state = one.state
    done = [_whole(each["collective_seq_id"]) for each in one.entries if _is_done(each)]
    every = [_whole(each["collective_seq_id"]) for each in one.entries]
    if any(_on_gloo(each) for each in one.entries):
        # Gloo's pg_status counts transfers from rank to rank, too, and the entries do not. What
        # went before the oldest entry is over.
        state = replace(state, enqueued=None, completed=min(every) - 1 or None)
    if state.enqueued is None and every:
        state = replace(state, enqueued=max(every))
    if done:
        state = replace(state, completed=max(state.completed or 0, *done))
    behind = state.completed or 0
    waiting = sorted(
        (
            _operation(each, written_at)
            for each in one.entries
            # Gloo may end overlapped operations in another order than they began.
            if (_on_gloo(each) or each["collective_seq_id"] > behind) and not _is_done(each)
        ),
        key=lambda operation: operation.sequence,
    )
    return replace(state, open=tuple(waiting[:MAX_OPEN]))


def _is_done(entry: Mapping[str, Any]) -> bool:
    """On gloo the state never changes, but what is over is retired; NCCL retires timeouts too."""
    if entry.get("state") == "completed":
        return True
    return _on_gloo(entry) and entry.get("retired") is True


def _on_gloo(entry: Mapping[str, Any]) -> bool:
    return _text(entry["profiling_name"]).startswith("gloo:")


def _operation(entry: Mapping[str, Any], written_at: float) -> Operation:
    name = _text(entry["profiling_name"])[:100]
    match = _OPERATION.fullmatch(name)
    if match is None:
        raise ValueError(f"{name[:40]!r} is no operation")
    since = _whole(entry["time_created_ns"]) / 1e9
    return Operation(
        _whole(entry["collective_seq_id"]), match[1].lower(), max(0.0, written_at - since)
    )


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"a {type(value).__name__} is no count, or an impossible one")
    return int(value)


def _text(value: Any) -> str:
    """Asked before anything is done with it: a hostile tree may take years to print or hash."""
    if type(value) is not str:
        raise TypeError(f"a {type(value).__name__} where a text should be")
    return value


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")
