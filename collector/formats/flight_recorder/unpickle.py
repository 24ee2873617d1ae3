"""Turns pickles of plain data into JSON: a process of its own, started as `python -I -S <this>`.

Python's unpickler imports nothing when it may find no class, but it still allocates and computes
what a hostile file asks for (a memo of terabytes, a dictionary whose keys collide). So it does that
here, where the kernel bounds both. Input: the pickle. Output: the JSON, or on stderr a reason and a
sentence. With `--many`, input and output are many of these, each after its length (8 bytes, little
endian); what is refused begins with "!". The standard library alone, and little of it: each dump
waits for this to start.
"""

import io
import json
import pickle
import resource
import sys
from operator import sub
from typing import Any, NoReturn

MEMORY_BYTES = 256 << 20
"""A dump of 16 MiB, which is the most that is read, takes half of it."""
CPU_SECONDS = 5
"""The same dump takes one."""
NEWEST = 64
"""Operations of a dump that are kept where many are read, besides those that are open."""
UNUSED = ("thread_id", "thread_name", "output_sizes", "output_dtypes", "op_id")
MAX_DEPTH = 64
MAX_VALUES = 1_000_000
"""What is named again counts again: in JSON it stands there again."""


class Unsafe(pickle.UnpicklingError):
    """The pickle asks for something that could run code."""


class _PlainUnpickler(pickle.Unpickler):
    """Without a class or function there is nothing that the other instructions could call."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise Unsafe(f"{module}.{name}")

    def persistent_load(self, _: Any) -> NoReturn:
        raise Unsafe("a persistent id")


def main() -> int:
    """Convert the input."""
    _limit(resource.RLIMIT_AS, MEMORY_BYTES)
    _limit(resource.RLIMIT_CPU, CPU_SECONDS)
    _limit(resource.RLIMIT_CORE, 0)
    if sys.argv[1:] == ["--many"]:
        return _many()
    reason, text = _converted(sys.stdin.buffer.read())
    if reason:
        sys.stderr.write(f"{reason} {text}")
        return 1
    sys.stdout.write(text)
    return 0


def _many() -> int:
    read, write = sys.stdin.buffer.read, sys.stdout.buffer.write
    while head := read(8):
        reason, text = _converted(read(int.from_bytes(head, "little")), NEWEST)
        answer = (f"!{reason} {text}" if reason else text).encode()
        write(len(answer).to_bytes(8, "little"))
        write(answer)
    return 0


def _converted(data: bytes, newest: int | None = None) -> tuple[str, str]:
    """("", JSON), or (reason, sentence); `newest` operations are kept, and what is open."""
    try:
        # Buffered: a stream that cannot be peeked into is read byte by byte, four times as slow.
        tree = _PlainUnpickler(io.BufferedReader(io.BytesIO(data))).load()
        _drop_frames(tree)
        _drop_old(tree, newest)
        if not _bounded(tree):
            return "too_large", f"a dump of over {MAX_VALUES} values, or {MAX_DEPTH} deep"
        return "", json.dumps(tree, allow_nan=False, check_circular=False)
    except Unsafe as error:
        what = f"the pickle holds {str(error)[:80]!r}, which could run code; nothing of it was read"
        return "unsafe", what
    except Exception as error:  # noqa: BLE001 - whatever hostile bytes lead to
        what = f"{type(error).__name__}: {error}"[:120]
        return "content", f"the dump does not hold together: {what}"


def _limit(kind: int, most: int) -> None:
    """From now on so much, or less where less is allowed already."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(kind, (most, most))


def _drop_frames(tree: Any) -> None:
    """Nobody here reads the stack traces, and they are nine tenths of a dump."""
    entries = tree.get("entries") if isinstance(tree, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            entry.pop("frames", None)


def _drop_old(tree: Any, newest: int | None) -> None:
    """What came to an end long before the dump: who compares many dumps looks at their ends.

    How long the rank has been still at most is lost with it, and is stored in its place.
    """
    entries = tree.get("entries") if isinstance(tree, dict) else None
    if newest is None or not isinstance(entries, list) or len(entries) <= newest:
        return
    created = [entry["time_created_ns"] for entry in entries]
    ended = [
        entry.get("time_discovered_completed_ns") or begun
        for entry, begun in zip(entries, created, strict=True)
    ]
    begun = [moment for moment in created if moment]
    tree["longest_quiet_ns"] = max(0, *map(sub, begun[1:], begun), *map(sub, ended, created))
    tree["entries"] = [
        entry for entry in entries[:-newest] if entry.get("state") != "completed"
    ] + entries[-newest:]
    for entry in tree["entries"]:
        for key in UNUSED:
            entry.pop(key, None)


def _bounded(tree: Any) -> bool:
    """Level by level, so that neither depth nor a cycle matters."""
    level, count = [tree], 1
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            if isinstance(node, dict | list | tuple)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        count += len(level)
        if not level or count > MAX_VALUES:
            break
    return not level and count <= MAX_VALUES


if __name__ == "__main__":
    sys.exit(main())
