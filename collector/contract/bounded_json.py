"""JSON that somebody else wrote: bounded in bytes, depth and numbers before it is walked through.

`json.loads` alone ends in a RecursionError some hundred levels down, and what it still reads may
end in one in whoever walks through it. Every reader of files, answers and lines from outside comes
through here; ruff refuses `json.loads` elsewhere.
"""

import json
import math
import os
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

MAX_BYTES = 64 * 1024 * 1024
"""Of one document, unless its reader says less."""
MAX_DEPTH = 64
"""Objects and lists within each other; what Lockstep and its sources write has under ten."""


MAX_DIGITS = 30
"""Of a whole number; one of 64 bits has 20."""
_LONG = re.compile(rf"[0-9]{{{MAX_DIGITS + 1}}}|[eE]\+?[0-9]{{3}}")
"""Where a number may be that is out of bounds, or a text that looks like one."""


class BoundError(ValueError):
    """A document is larger, deeper, or has larger numbers than anything that it could be."""


def loads(
    text: str | bytes | bytearray,
    *,
    limit: int | None = MAX_BYTES,
    depth: int = MAX_DEPTH,
    parse_constant: Callable[[str], Any] | None = None,
    members: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """The document as Python objects.

    Args:
        text: The whole of it; bytes are UTF-8, as RFC 8259 has it, with a mark of that or without.
        limit: Most bytes, or characters; None = its reader has counted them.
        depth: Most objects and lists within each other.
        parse_constant: As of json.loads: what to make of NaN and the infinities.
        members: As object_pairs_hook of json.loads: what to make of the members of an object.

    Raises:
        BoundError: It is larger or deeper, or a number in it is out of bounds.
        ValueError: It is not JSON (json.JSONDecodeError), or not UTF-8.
    """
    if limit is not None and len(text) > limit:
        raise BoundError(f"it is larger than {limit} bytes")
    if not isinstance(text, str):  # json.loads would guess whether it is UTF-16, too
        text = text.decode("utf-8-sig")
    try:
        if _LONG.search(text) is None:
            tree = json.loads(text, parse_constant=parse_constant, object_pairs_hook=members)
        else:  # slower, as every number is looked at
            tree = json.loads(
                text, parse_constant=parse_constant, parse_int=_whole, parse_float=_real,
                object_pairs_hook=members,
            )  # fmt: skip
    except RecursionError:
        raise BoundError(f"it is nested deeper than {depth} levels") from None
    if _brackets(text) > depth and _is_deeper(tree, depth):
        raise BoundError(f"it is nested deeper than {depth} levels")
    return tree


def read(
    path: Path,
    *,
    limit: int = MAX_BYTES,
    parse_constant: Callable[[str], Any] | None = None,
) -> Any:
    """`loads` for a regular file; a pipe or a device would keep its reader, and is refused.

    Raises:
        OSError: It cannot be read.
        ValueError: As of `loads`, or it is no regular file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is no regular file")
        return loads(file.read(limit + 1), limit=limit, parse_constant=parse_constant)


def _whole(text: str) -> int:
    if (digits := len(text.lstrip("-"))) > MAX_DIGITS:
        raise BoundError(f"it has a number of {digits} digits")
    return int(text)


def _real(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise BoundError("it has a number that is larger than any")
    return number


def _brackets(text: str) -> int:
    """At least as many as there are levels: most documents need no second look."""
    return text.count("[") + text.count("{")


def _is_deeper(tree: Any, depth: int) -> bool:
    """Level by level, without recursion of our own."""
    level = [tree] if isinstance(tree, dict | list) else []
    for _ in range(depth):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


# JSON that a C program printed wrongly, with two slips mended that such programs make.
#
# A comma is missing between two members (NCCL 2.28.7 and 2.28.9 write none before "status" of a
# missing rank: nccl v2.28.9-1, src/ras/client_support.cc:1963), or the point of a number is a comma
# (printf under a foreign LC_NUMERIC). Nothing else is guessed: what is still no JSON afterwards is
# refused by who parses it.

_STRING = r'"(?:[^"\\\n]|\\.)*+"'
_NO_COMMA = re.compile(rf"({_STRING}|[0-9el}}\]])(?=\s+{_STRING}\s*:)|{_STRING}")
"""A value's end that a member's name follows without a comma; other strings are passed over, so
that nothing inside one is taken for it."""
_DECIMAL_COMMA = re.compile(rf"(:\s*-?[0-9]+),([0-9]+)(?=\s*[,}}\n])|{_STRING}")
"""Digits after the comma that follows a member's number: a name would have to stand there."""


def mended(text: str) -> str:
    """The same text with missing commas set and decimal commas made points."""
    text = _DECIMAL_COMMA.sub(_point, text)
    return _NO_COMMA.sub(_comma, text)


def unambiguous(members: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """For `object_pairs_hook` of json: an object, none of whose members stands twice.

    Raises:
        ValueError: One does, and nobody can say which of them holds.
    """
    tree = dict(members)
    if len(tree) != len(members):
        raise ValueError("a member of an object stands twice")
    return tree


def _point(match: re.Match[str]) -> str:
    return f"{match[1]}.{match[2]}" if match[1] else match[0]


def _comma(match: re.Match[str]) -> str:
    return f"{match[1]}," if match[1] else match[0]
