"""RAS' JSON document (NCCL 2.28.7 and newer) as a Status.

The members are those that src/ras/client_support.cc of nccl writes (rasDumpCommsToJSON). A part
that does not hold together is left out and counted, and so is every number that would need it; the
rest of the document stands.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.bounded_json import mended, unambiguous
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.nccl.ras.status import (
    MISSING,
    UNKNOWN,
    Communicator,
    Notes,
    Rank,
    Status,
    host_of,
    version_of,
)

MAX_COMMUNICATORS = 20_000
MAX_OPERATIONS = 16
MAX_VALUES = 1_000_000
"""1,000 ranks in eight communicators each have 180,000."""
MAX_RANK_CHARACTERS = 8192
"""Of one rank; NCCL writes 500."""
MAX_BROKEN = 1000
"""Ranks that do not hold together, after which a communicator is looked at no further."""
IN_PROGRESS = 7
"""ncclInProgress; 0 is ncclSuccess, everything else an error (nccl.h, ncclResult_t)."""

_HASH = re.compile(r"0x[0-9a-fA-F]{1,16}(:0x[0-9a-fA-F]{1,16})?", re.ASCII)
_OPERATION = re.compile(r"[A-Z][A-Za-z0-9]{0,31}", re.ASCII)
"""As AllReduce; the document's own members are in small letters."""
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FLAGS = {"abort_flag": "abort", "finalize_called": "finalize", "destroy_flag": "destroy"}
_WRONG = (ValueError, TypeError, KeyError, AttributeError, RecursionError)

_PART = re.compile(r'"(hash|ranks|missing_ranks|ras)"\s*:')
"""Where a communicator, its ranks, those that are missing, and the document's end begin."""
_MEMBER = re.compile(
    r'"(nccl_version|communicators_count|secondary_hash|size|ranks_count|missing_ranks_count'
    r'|collection_time_sec|timeouts_count|hash)"\s*:\s*("[^"\\\n]*"|[0-9]+(?:\.[0-9]+)?)\s*[,}\n]'
)
"""A member whose value has ended: a number that is cut looks like a smaller one."""


def parse(text: str) -> Status:
    """What the document says.

    Raises:
        SourceError: It is no document of RAS, or nothing of it can be understood.
    """
    notes = Notes()
    try:
        # An empty list weighs three bytes in the answer and sixty in memory.
        if sum(map(text.count, ",[{")) > MAX_VALUES:
            raise ValueError(f"over {MAX_VALUES} values")
        return _status(_tree(text, notes), notes)
    except _WRONG as error:
        why = f"{type(error).__name__}: {error}"[:200]
        raise SourceError(
            "content", f"the document of RAS does not hold together: {why}"
        ) from error


def operation(name: str) -> str:
    """NCCL's name of a collective in our words: AllReduce is all_reduce.

    Raises:
        ValueError: No build of NCCL could call one so.
    """
    if not isinstance(name, str) or not _OPERATION.fullmatch(name):
        raise ValueError(f"{str(name)[:40]!r} is no operation")
    return _WORD.sub("_", name).lower()


def _tree(text: str, notes: Notes) -> Mapping[str, Any]:
    """The document's tree; of one that is broken, the parts that hold together."""
    try:
        return _loaded(text)
    except bounded_json.BoundError:
        raise
    except ValueError as error:
        try:
            return _loaded(mended(text))
        except ValueError:
            parts = _parts(text, notes)
            if not parts["communicators"]:
                raise error from None
            notes.add(f"the document is no JSON: {error}")
            return parts


def _loaded(text: str) -> Mapping[str, Any]:
    tree = bounded_json.loads(text, parse_constant=_not_a_number, members=unambiguous)
    if not isinstance(tree, dict) or "communicators" not in tree:
        raise KeyError("communicators")
    return tree


def _parts(text: str, notes: Notes) -> dict[str, Any]:
    """Of a broken document: every communicator by its members, with the ranks that can be read."""
    marks = [(match[1], match.start(), match.end()) for match in _PART.finditer(text)]
    first = marks[0][1] if marks else len(text)
    objects: list[dict[str, Any]] = []
    tree: dict[str, Any] = _members(text, 0, first)
    for index, (kind, start, _) in enumerate(marks):
        if kind == "ras":
            tree["ras"] = _members(text, start, len(text))
        if kind != "hash" or len(objects) >= MAX_COMMUNICATORS:
            continue
        own = dict[str, tuple[int, int]]()
        begin, part = start, "hash"
        for other, at, after in [*marks[index + 1 :], ("", len(text), len(text))]:
            own[part] = (begin, at)
            # A second part of a kind is of a communicator whose own beginning is broken.
            if other in ("", "hash", "ras") or other in own:
                break
            begin, part = after, other
        members = _members(text, *own["hash"])
        for kind in ("ranks", "missing_ranks"):
            members[kind] = list(_objects(text, *own[kind], notes)) if kind in own else []
        objects.append(members)
    tree["communicators"] = objects
    tree["broken"] = True
    return tree


def _members(text: str, start: int, end: int) -> dict[str, Any]:
    """Members with a value of their own; none that stands twice."""
    members: dict[str, Any] = {}
    twice = set()
    for match in _MEMBER.finditer(text, start, end):
        twice |= {match[1]} & members.keys()
        members[match[1]] = bounded_json.loads(match[2])
    return {name: value for name, value in members.items() if name not in twice}


def _objects(text: str, start: int, end: int, notes: Notes) -> Iterator[dict[str, Any]]:
    """The ranks between two places; what does not hold together is noted."""
    decoder = json.JSONDecoder(object_pairs_hook=unambiguous, parse_constant=_not_a_number)
    broken = 0
    while (start := text.find("{", start, end)) >= 0:
        piece = text[start : min(end, start + MAX_RANK_CHARACTERS)]
        try:
            tree, length = decoder.raw_decode(piece)
        except _WRONG:
            # A piece that lacks a comma as a whole document may, ends where the next rank begins.
            tree, length = _mended_object(piece, decoder)
        if tree is None:
            notes.add("a rank that does not hold together")
            start += 1
            if (broken := broken + 1) >= MAX_BROKEN:
                return
            continue
        if "rank" in tree:
            yield tree
        start += length


def _mended_object(piece: str, decoder: json.JSONDecoder) -> tuple[dict[str, Any] | None, int]:
    """The object at the beginning of a piece once its commas are mended, and its length here."""
    following = re.compile(r"\}\s*,?\s*(?=\{|\])").search(piece)
    own = piece[: following.end()] if following else piece
    try:
        tree, _ = decoder.raw_decode(mended(own))
    except _WRONG:
        return None, 0
    return tree, len(own)


def _status(tree: Mapping[str, Any], notes: Notes) -> Status:
    trees = tree["communicators"]
    if not isinstance(trees, list) or len(trees) > MAX_COMMUNICATORS:
        raise ValueError("communicators is no list of a possible length")
    names: dict[str, str] = {}
    communicators = tuple(
        one for each in trees if (one := _understood(each, names, notes)) is not None
    )
    if notes and not communicators:
        raise ValueError(f"nothing of it is understood: {notes}")
    # How many there are is known where all are, and a broken document says itself how many it had.
    whole = all(
        UNKNOWN not in (communicator.status, communicator.health) for communicator in communicators
    )
    counted = tree.get("communicators_count", None if "broken" in tree else len(trees))
    whole &= len(communicators) == len(trees) == counted
    ras = tree.get("ras", {})
    ras = ras if isinstance(ras, dict) else {}
    return Status(
        communicators,
        whole,
        Counter((communicator.status, communicator.health) for communicator in communicators)
        if whole
        else {},
        _seconds(ras.get("collection_time_sec"), notes),
        _optional_count(ras, "timeouts_count", notes),
        version_of(tree.get("nccl_version")),
        notes.rejected(),
    )


def _understood(tree: Any, names: dict[str, str], notes: Notes) -> Communicator | None:
    try:
        return _communicator(tree, names, notes)
    except _WRONG as error:
        notes.add(f"a communicator: {error}")
        return None


def _communicator(tree: Mapping[str, Any], names: dict[str, str], notes: Notes) -> Communicator:
    group = _group(tree)
    size, lost = (
        _optional_count(tree, "size", notes),
        _optional_count(tree, "missing_ranks_count", notes),
    )
    expected = _optional_count(tree, "ranks_count", notes)
    if size == 0:
        # NCCL 2.29.7 fills in none of one that is being made (nccl issue 2346).
        raise ValueError("it has no ranks")
    told, answered = [], []
    for each in _list(tree, "ranks"):
        if (rank := _rank(each, names, notes)) is not None:
            told.append(each)
            answered.append(rank)
    missing = [one for each in _list(tree, "missing_ranks") if (one := _missing(each, notes))]
    twice = Counter(one.rank for one in (*answered, *missing))
    if max(twice.values(), default=0) > 1 or len(twice) > (size or len(twice)):
        raise ValueError("a rank stands twice, or there are more than its size")
    if expected is None or lost is None:
        whole = False
    else:
        if len(answered) > expected or len(missing) > lost:
            raise ValueError("it has more ranks than it says")
        whole = len(answered) == expected and len(missing) == lost
    ranks = (*answered, *missing)
    if not whole:
        # Who is not understood may have launched the fewest, or be the one with the error.
        return Communicator(group, size, UNKNOWN, UNKNOWN, lost, None, ranks)
    launched = _bounds(answered)
    status, several, failed = _condition(told)
    health = "ok"
    if failed:
        health = "error"
    elif lost:
        health = "incomplete"
    elif several or any(low != high for low, high in launched.values()):
        health = "mismatch"
    return Communicator(group, size, status, health, lost, launched, ranks)


def _bounds(ranks: list[Rank]) -> dict[str, tuple[int, int]]:
    """(fewest, most) by operation, of those that all ranks tell."""
    counts = [rank.launched for rank in ranks]
    return {
        op: (min(values), max(values))
        for op in (counts[0] if counts else ())
        if len(values := [count[op] for count in counts if op in count]) == len(counts)
    }


def _condition(ranks: list[Any]) -> tuple[str, bool, bool]:
    """(status of the communicator, its ranks differ in it, one has an error).

    A rank's status by its flags is RAS' own rule; of several the furthest stands.
    """
    seen = set()
    failed = False
    for tree in ranks:
        told = tree["status"]
        failed |= told.get("async_error", 0) not in (0, IN_PROGRESS)
        failed |= told["init_state"] not in (0, IN_PROGRESS)
        if told.get("abort_flag"):
            seen.add("abort")
        elif told.get("finalize_called") or told.get("destroy_flag"):
            seen.add("finalize")
        else:
            seen.add("running" if told["init_state"] == 0 else "init")
    for status in ("abort", "finalize", "init", "running"):
        if status in seen:
            return status, len(seen) > 1, failed
    return "nocomm", False, failed


def _rank(tree: Any, names: dict[str, str], notes: Notes) -> Rank | None:
    """A rank that answered; None = it is noted."""
    try:
        number, status = _count(tree["rank"]), tree["status"]
        states = [state for flag, state in _FLAGS.items() if status.get(flag)]
        if status.get("async_error", 0) not in (0, IN_PROGRESS):
            states.append("async_error")
        if status["init_state"] != 0:
            states.append("initializing")
        counts = tree["collective_counts"]
        if len(counts) > MAX_OPERATIONS:
            raise ValueError(f"a rank counts {len(counts)} operations")
        launched = {}
        for name, count in counts.items():
            try:
                op = names.get(name)
                if op is None:
                    op = names[name] = operation(name)
                launched[op] = _count(count)
            except ValueError as error:
                notes.add(f"a count of rank {number}: {error}")
        return Rank(number, host_of(tree.get("host")), _pid(tree), launched, tuple(states))
    except _WRONG as error:
        notes.add(f"a rank: {type(error).__name__}: {error}")
        return None


def _missing(tree: Any, notes: Notes) -> Rank | None:
    """A rank that did not answer; None = it is noted."""
    try:
        status = tree["status"]
        states = [MISSING]
        if status["unresponsive"]:
            states.append("unresponsive")
        if status.get("considered_dead"):
            states.append("dead")
        return Rank(_count(tree["rank"]), host_of(tree.get("host")), _pid(tree), {}, tuple(states))
    except _WRONG as error:
        notes.add(f"a missing rank: {type(error).__name__}: {error}")
        return None


def _group(tree: Mapping[str, Any]) -> str:
    """The unique id: hash and secondary hash, without which two communicators may look alike."""
    parts = [tree["hash"], tree["secondary_hash"]]
    for part in parts:
        if not isinstance(part, str) or not _HASH.fullmatch(part):
            raise ValueError(f"{str(part)[:60]!r} is no hash")
    return ":".join(part.replace("0x", "") for part in parts)


def _list(tree: Mapping[str, Any], name: str) -> list[Any]:
    values = tree[name]
    if not isinstance(values, list):
        raise TypeError(f"{name} is no list")
    return values


def _pid(tree: Mapping[str, Any]) -> int | None:
    pid = tree.get("pid")
    return pid if type(pid) is int and pid > 0 else None


def _optional_count(tree: Mapping[str, Any], name: str, notes: Notes) -> int | None:
    """A count that may be absent."""
    try:
        return _count(tree[name]) if name in tree else None
    except ValueError as error:
        notes.add(f"{name}: {error}")
        return None


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{str(value)[:40]} is no count")
    return int(value)


def _seconds(value: Any, notes: Notes) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not (math.isfinite(value) and value >= 0):
        notes.add(f"{str(value)[:40]} is no duration")
        return None
    return float(value)


def _not_a_number(word: str) -> None:
    """NaN and the infinities, which JSON does not have: not known."""
