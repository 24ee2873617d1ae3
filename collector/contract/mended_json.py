"""JSON that a C program printed wrongly, with the two slips mended that such programs make.

A comma is missing between two members (NCCL 2.28.7 and 2.28.9 write none before "status" of a
missing rank: nccl v2.28.9-1, src/ras/client_support.cc:1963), or the point of a number is a comma
(printf under a foreign LC_NUMERIC). Nothing else is guessed: what is still no JSON afterwards is
refused by who parses it.
"""

import re
from collections.abc import Sequence
from typing import Any

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
