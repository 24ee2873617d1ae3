"""Turns a pickle of plain data into JSON: a process of its own, started as `python -I -S <this>`.

Python's unpickler imports nothing when it may find no class, but it still allocates and computes
what a hostile file asks for (a memo of terabytes, a dictionary whose keys collide). So it does that
here, where the kernel bounds both. Input: the pickle. Output: the JSON, or on stderr a reason and a
sentence. The standard library alone, and little of it: each dump waits for this to start.
"""

import io
import json
import pickle
import resource
import sys
from typing import Any, NoReturn

MEMORY_BYTES = 256 << 20
"""A dump of 16 MiB, which is the most that is read, takes half of it."""
CPU_SECONDS = 5
"""The same dump takes one."""
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
    try:
        tree = _PlainUnpickler(io.BytesIO(sys.stdin.buffer.read())).load()
        _drop_frames(tree)
        if not _bounded(tree):
            return _refused("too_large", f"a dump of over {MAX_VALUES} values, or {MAX_DEPTH} deep")
        text = json.dumps(tree, allow_nan=False, check_circular=False)
    except Unsafe as error:
        what = f"the pickle holds {str(error)[:80]!r}, which could run code; nothing of it was read"
        return _refused("unsafe", what)
    except Exception as error:  # noqa: BLE001 - whatever hostile bytes lead to
        what = f"{type(error).__name__}: {error}"[:120]
        return _refused("content", f"the dump does not hold together: {what}")
    sys.stdout.write(text)
    return 0


def _limit(kind: int, most: int) -> None:
    """From now on so much, or less where less is allowed already."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(kind, (most, most))


def _refused(reason: str, sentence: str) -> int:
    sys.stderr.write(f"{reason} {sentence}")
    return 1


def _drop_frames(tree: Any) -> None:
    """Nobody here reads the stack traces, and they are nine tenths of a dump."""
    entries = tree.get("entries") if isinstance(tree, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            entry.pop("frames", None)


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
