"""The fields of a flight-recorder dump, each checked before it is used: dumps come from outside.

Fields are those of torch/csrc/distributed/c10d/FlightRecorderDetail.hpp (getCollectiveTrace,
getPgConfig). What a reader does with one that is wrong (leave out an entry, or refuse the dump) is
its own choice; here all of them raise one of WRONG.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

MAX_ENTRIES = 100_000
"""Of one dump; torch keeps 2,000 unless TORCH_FR_BUFFER_SIZE says otherwise."""
NONE_YET = -1
"""The last collective where there was none, or where the backend reports none."""
PICKLE = b"\x80"
"""The first byte of a dump that is a pickle; others are JSON."""
WRONG = (ValueError, TypeError, KeyError, AttributeError, IndexError)
"""What a tree raises that is not of torch's making."""

_NAME = re.compile(
    r"(?:(?P<backend>[a-z]{1,16}):)?(?P<op>[a-zA-Z_]\w{0,49})"
    r"(?: (?P<me>\d{1,9})(?P<way>->|<-)(?P<peer>\d{1,9}))?",
    re.ASCII,
)
_NUMBERS = re.compile(r"\[?\s*(\d{1,9}(?:\s*,\s*\d{1,9})*)?\s*\]?", re.ASCII)


class OperationName(NamedTuple):
    """`profiling_name` in its parts, as `nccl:all_reduce` or `nccl:send 0->1`.

    Attributes:
        backend: `nccl` or `gloo`; empty where the name has none.
        op: In lower case.
        me: The rank in its group; None = no transfer.
        peer: Likewise, of the other side.
        sends: Whether the transfer goes from `me` to `peer`.
    """

    backend: str
    op: str
    me: int | None
    peer: int | None
    sends: bool


def operation_name(value: Any) -> OperationName:
    """The parts of a `profiling_name`.

    Raises:
        ValueError, TypeError: It is none.
    """
    name = text(value)[:100]
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name[:40]!r} is no operation")
    me, peer = match["me"], match["peer"]
    return OperationName(
        match["backend"] or "",
        match["op"].lower(),
        None if me is None else int(me),
        None if peer is None else int(peer),
        sends=match["way"] == "->",
    )


def is_over(entry: Mapping[str, Any], backend: str) -> bool:
    """On gloo the state never changes, but what is over is retired; NCCL retires time-outs too."""
    return entry.get("state") == "completed" or (backend == "gloo" and entry.get("retired") is True)


def members(ranks: Any) -> tuple[int, ...]:
    """Ranks of a group, each once and in its order, which is what a transfer's numbers count.

    Args:
        ranks: A list, or the text of one, as pg_config has it.

    Raises:
        ValueError, TypeError: They are no ranks.
    """
    if isinstance(ranks, str):
        return _listed(ranks)
    return tuple(dict.fromkeys(map(whole, ranks)))


@lru_cache(maxsize=64)
def _listed(ranks: str) -> tuple[int, ...]:
    """From the text of a list; every rank's dump has that of the world."""
    match = _NUMBERS.fullmatch(ranks)
    if match is None:
        raise ValueError(f"{ranks[:40]!r} are no ranks")
    return tuple(dict.fromkeys(map(int, match[1].split(",")))) if match[1] else ()


def sequence(value: Any) -> int | None:
    """A number of pg_status, which is a text in some versions; None = none yet."""
    if isinstance(value, str):
        value = int(value)
    return None if value is None or value == NONE_YET else whole(value)


def count(value: Any) -> int | None:
    """A number that may be missing."""
    return None if value is None else whole(value)


def whole(value: Any) -> int:
    """A count.

    Raises:
        ValueError: It is none, or an impossible one.
    """
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"a {type(value).__name__} is no count, or an impossible one")
    return int(value)


def text(value: Any) -> str:
    """A text; checked before anything else, since a hostile tree may take years to print or hash.

    Raises:
        TypeError: It is none.
    """
    if type(value) is not str:
        raise TypeError(f"a {type(value).__name__} where a text should be")
    return value
