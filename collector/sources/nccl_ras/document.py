"""RAS' JSON document (NCCL 2.28.7 and newer) as a Status."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from collector.contract import bounded_json
from collector.reading import SourceError
from collector.sources.nccl_ras.status import MISSING, Communicator, Rank, Status

MAX_COMMUNICATORS = 20_000
MAX_OPERATIONS = 16
MAX_VALUES = 1_000_000
"""1,000 ranks in eight communicators each have 180,000."""
IN_PROGRESS = 7
"""ncclInProgress; 0 is ncclSuccess, everything else an error (nccl.h, ncclResult_t)."""

_HASH = re.compile(r"0x[0-9a-fA-F]{1,16}(:0x[0-9a-fA-F]{1,16})?", re.ASCII)
_OPERATION = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}", re.ASCII)
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FLAGS = {"abort_flag": "abort", "finalize_called": "finalize", "destroy_flag": "destroy"}


def parse(text: str) -> Status:
    """Every communicator of the document.

    Raises:
        SourceError: It is not JSON, or not what RAS writes.
    """
    try:
        # An empty list weighs three bytes in the answer and sixty in memory.
        if sum(map(text.count, ",[{")) > MAX_VALUES:
            raise ValueError(f"over {MAX_VALUES} values")
        tree = bounded_json.loads(text, parse_constant=_refused)
        return _status(tree)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"[:200]
        raise SourceError(
            "content", f"the document of RAS does not hold together: {why}"
        ) from error


def operation(name: str) -> str:
    """NCCL's name of a collective in our words: AllReduce is all_reduce.

    Raises:
        ValueError: No build of NCCL could call one so.
    """
    if not _OPERATION.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is no operation")
    return _WORD.sub("_", name).lower()


def _status(tree: Any) -> Status:
    found = tree["communicators"]
    if not isinstance(found, list) or len(found) > MAX_COMMUNICATORS:
        raise ValueError("communicators is no list of a possible length")
    names: dict[str, str] = {}
    communicators = tuple(_communicator(one, names) for one in found)
    ras = tree.get("ras", {})
    return Status(
        communicators,
        True,
        Counter((one.status, one.health) for one in communicators),
        _seconds(ras.get("collection_time_sec")),
        _count(ras["timeouts_count"]) if "timeouts_count" in ras else None,
    )


def _communicator(tree: Any, names: dict[str, str]) -> Communicator:
    answered = tuple(_ranks(tree["ranks"], names))
    missing = tuple(_missing(tree["missing_ranks"]))
    size, lost = _count(tree["size"]), _count(tree["missing_ranks_count"])
    ranks = answered + missing
    if len({one.rank for one in ranks}) != len(ranks) or len(ranks) > max(size, 1):
        raise ValueError("a rank of a communicator stands twice, or there are more than its size")
    counts = [one.launched for one in answered]
    launched = {
        op: (min(values), max(values))
        for op in (counts[0] if counts else ())
        if (values := [each[op] for each in counts if op in each])
    }
    uneven = any(low != high for low, high in launched.values())
    status, several, failed = _condition(tree["ranks"])
    health = "ok"
    if failed:
        health = "error"
    elif lost:
        health = "incomplete"
    elif uneven or several:
        health = "mismatch"
    return Communicator(_group(tree), size, status, health, lost, launched, ranks)


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


def _ranks(trees: list[Any], names: dict[str, str]) -> Iterator[Rank]:
    for tree in trees:
        told = tree["status"]
        states = [state for flag, state in _FLAGS.items() if told.get(flag)]
        if told.get("async_error", 0) not in (0, IN_PROGRESS):
            states.append("async_error")
        if told["init_state"] != 0:
            states.append("initializing")
        counts = tree["collective_counts"]
        if len(counts) > MAX_OPERATIONS:
            raise ValueError(f"a rank counts {len(counts)} operations")
        launched = {}
        for name, count in counts.items():
            op = names.get(name)
            if op is None:
                op = names[name] = operation(name)
            launched[op] = _count(count)
        yield Rank(_count(tree["rank"]), _host(tree), _pid(tree), launched, tuple(states))


def _missing(trees: list[Any]) -> Iterator[Rank]:
    for tree in trees:
        told = tree["status"]
        states = [MISSING]
        if told.get("unresponsive"):
            states.append("unresponsive")
        if told.get("considered_dead"):
            states.append("dead")
        yield Rank(_count(tree["rank"]), _host(tree), _pid(tree), {}, tuple(states))


def _group(tree: Mapping[str, Any]) -> str:
    """The unique id: hash and secondary hash, without which two communicators may look alike."""
    parts = [tree["hash"], *([tree["secondary_hash"]] if "secondary_hash" in tree else [])]
    for part in parts:
        if not _HASH.fullmatch(part):
            raise ValueError(f"{str(part)[:60]!r} is no hash")
    return ":".join(part.replace("0x", "") for part in parts)


def _host(tree: Mapping[str, Any]) -> str:
    host = tree["host"]
    if not isinstance(host, str) or not 0 < len(host) <= 255 or not host.isprintable():
        raise ValueError("a host is no name")
    return host


def _pid(tree: Mapping[str, Any]) -> int | None:
    pid = tree["pid"]
    if type(pid) is not int:
        raise TypeError("a pid is no number")
    return pid if pid > 0 else None


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{str(value)[:40]} is no count")
    return int(value)


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{str(value)[:40]} is no duration")
    return float(value)


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")
