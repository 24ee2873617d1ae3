"""What RAS says about a run at one moment, in whichever format it said it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
        size: Ranks in all, or None: a row of the text's table may stand for several sizes.
        status: init, running, finalize, abort or nocomm.
        health: ok, mismatch, incomplete or error.
        missing: Ranks that did not answer, or None if this is not told.
        launched: (fewest, most) collectives of a rank, by operation.
        ranks: Those that RAS names: all in JSON, outliers in text.
    """

    group: str
    size: int | None
    status: str
    health: str
    missing: int | None
    launched: Mapping[str, tuple[int, int]]
    ranks: tuple[Rank, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """One answer of RAS.

    Attributes:
        communicators: Those that it names.
        whole: Those are all; the text protocol names the troubled ones only.
        kinds: Number of communicators by (status, health).
        collection_seconds: In which RAS gathered it, or None.
        timeouts: Processes it waited for in vain, or None.
    """

    communicators: tuple[Communicator, ...]
    whole: bool
    kinds: Mapping[tuple[str, str], int]
    collection_seconds: float | None
    timeouts: int | None
