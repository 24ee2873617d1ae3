"""What RAS says about a run at one moment, in whichever format it said it."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from lockstep.collector.readings.source import Rejected

MISSING = "missing"
STATES: tuple[str, ...] = (
    "dead",
    "unresponsive",
    MISSING,
    "async_error",
    "abort",
    "initializing",
    "destroy",
    "finalize",
)
"""What a rank may be besides well, worst first."""
SEVERITY: tuple[str, ...] = ("ok", "mismatch", "incomplete", "error")
"""Healths of a communicator, worst last."""
UNKNOWN = "unknown"
"""A host, status or health that RAS does not tell, or not so that it is understood."""
NOT_UNDERSTOOD = "not_understood"
"""Reason of what was left out of an answer; the rest of the answer stands."""

_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?![\d.])", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]{0,254}", re.ASCII)

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of a communicator.

    Attributes:
        host: Address of its node as NCCL sees it, or "unknown".
        pid: In the process's own namespace; None = RAS does not know it.
        launched: Collectives by operation; empty when RAS has no answer from the rank.
        states: Words of STATES that hold.
    """

    rank: int
    host: str
    pid: int | None
    launched: Mapping[str, int] = field(default_factory=dict)
    states: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Communicator:
    """One communicator.

    Attributes:
        group: Its hashes; the text protocol tells the first one only.
        size: Ranks in all, or None: not told, or a row of the text's table stands for several.
        status: init, running, finalize, abort, nocomm, or unknown.
        health: A word of SEVERITY, or unknown.
        missing: Ranks that did not answer, or None if this is not told.
        launched: (fewest, most) collectives of a rank, by operation: where all ranks are told.
            None = of none is it known, because a part of the answer was not understood.
        ranks: Those that RAS names: all in JSON, outliers in text.
    """

    group: str
    size: int | None
    status: str
    health: str
    missing: int | None
    launched: Mapping[str, tuple[int, int]] | None
    ranks: tuple[Rank, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """One answer of RAS.

    Attributes:
        communicators: Those that it names.
        whole: Those are all; the text protocol names the troubled ones only.
        kinds: Number of communicators by (status, health); empty where not all are understood.
        collection_seconds: In which RAS gathered it, or None.
        timeouts: Processes it waited for in vain, or None.
        version: Of the NCCL that answers, or None.
        rejected: What of the answer was not understood, each thing once.
    """

    communicators: tuple[Communicator, ...]
    whole: bool
    kinds: Mapping[tuple[str, str], int]
    collection_seconds: float | None
    timeouts: int | None
    version: Version | None = None
    rejected: tuple[Rejected, ...] = ()


class Notes:
    """What is left out while an answer is read: how often, by words."""

    def __init__(self) -> None:
        self._found: Counter[str] = Counter()

    def add(self, words: str) -> None:
        """One thing was not understood."""
        words = words[:160]
        # A flood of different things is as many of one.
        known = words in self._found or len(self._found) < MOST_TOLD
        self._found[words if known else "and more"] += 1

    def __bool__(self) -> bool:
        return bool(self._found)

    def __str__(self) -> str:
        return "; ".join(list(self._found)[:3])

    def rejected(self) -> tuple[Rejected, ...]:
        """Each thing, at most MOST_TOLD of them."""
        words = [one for one, count in self._found.items() for _ in range(min(count, MOST_TOLD))]
        return tuple(Rejected(NOT_UNDERSTOOD, f"left out of RAS' answer: {word}")
                     for word in words[:MOST_TOLD])  # fmt: skip


MOST_TOLD = 1000
"""Things left out of one answer that are counted."""


def version_of(text: object) -> Version | None:
    """The numbers of a version of NCCL, as 2.28.9 or 2.28.9+cuda12.9; None = it is none."""
    match = _VERSION.match(text) if isinstance(text, str) else None
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def host_of(text: object) -> str:
    """The address or name of a host, or UNKNOWN where it can be neither (NCCL: inet_ntop)."""
    return text if isinstance(text, str) and _HOST.fullmatch(text) else UNKNOWN
