"""What is known of nodes and remembered, and the thresholds. Times are unix seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lockstep.collector.contract.words import Cause


class Mode(StrEnum):
    """How far it may go; each contains the ones before."""

    OBSERVE = "observe"
    ANNOTATE = "annotate"
    TAINT = "taint"


class Status(StrEnum):
    """Of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Fault:
    """An open finding about a node, as watch tells it.

    Attributes:
        id: The same for as long as it is open, and after a restart.
        cause: A word of Cause.
        run: Empty = hardware without a run.
        rank, gpu, link: Empty = does not apply.
    """

    id: str
    cause: str
    run: str = ""
    rank: str = ""
    gpu: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class WatchState:
    """What the page of watch says.

    Attributes:
        judged: When its last cycle judged, on Prometheus' clock.
        data_age: Seconds of the newest scrape then.
        answered: Whether Prometheus answers it.
        heard: Node -> when its collector was scraped last.
        faults: Node -> what is open about it, as far as a human is paged for it.
        looked: Nodes of which watch looked at everything that it can: only those may be healthy.
    """

    judged: float
    data_age: float
    answered: bool
    heard: Mapping[str, float]
    faults: Mapping[str, tuple[Fault, ...]]
    looked: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Condition:
    """One of ours.

    Attributes:
        since: Of its last change of status.
        beat: When it was written last.
    """

    status: Status
    reason: str
    message: str
    since: float
    beat: float


@dataclass(frozen=True, slots=True)
class Known:
    """A fault that is written on a node.

    Attributes:
        since: When it was first told.
        source: The run in which it shows; empty = hardware without a run.
        value: For people.
    """

    since: float
    cause: str
    source: str
    value: str


@dataclass(frozen=True, slots=True)
class Quarantine:
    """What we did to a node: its annotation.

    Attributes:
        since: When our taint came; None = it does not carry one of ours.
        why: Fault ids that hold it, reference-counted.
        before: When our taints came earlier, the oldest first.
        released: When the last one went; None = none did.
    """

    since: float | None = None
    why: frozenset[str] = frozenset()
    before: tuple[float, ...] = ()
    released: float | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A node object, as far as it concerns us.

    Attributes:
        uid: Of this very object: a node that comes back has another.
        version: Its resourceVersion.
        conditions: Ours.
        faults: Of our annotation.
        quarantine: Of our annotation.
        tainted: Whether it carries a taint with our key, whoever put it there.
        ours: Whether it is the very taint of our annotation.
        away: Whether it is cordoned or not Ready, by whomever.
        rack: Empty = not known.
    """

    name: str
    uid: str
    version: str
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    faults: Mapping[str, Known] = field(default_factory=dict)
    quarantine: Quarantine = Quarantine()
    tainted: bool = False
    ours: bool = False
    away: bool = False
    rack: str = ""


@dataclass(frozen=True, slots=True)
class Breaker:
    """Whether so much is degraded at once that no node is touched.

    Attributes:
        open: Nothing but a human closes it.
        at: When it opened, or was reset; 0 = never.
        why: For people.
    """

    open: bool = False
    at: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """What is remembered from one decision to the next; a restart may lose all but the breaker.

    Attributes:
        breaker: It outlives a restart, on the lease.
        first: (node uid, fault id) -> when it was first told; -inf = before the last reset.
        gone: The same of a fault that is written -> since when it is not told, by a node that is
            heard.
        heard: Node uid -> since when it is heard without a break.
        calm: The same, with nothing told about it.
        silent: Node uid -> since when it is not heard.
        wanted: Node uid -> when it was decided that it should be quarantined.
    """

    breaker: Breaker = Breaker()
    first: Mapping[tuple[str, str], float] = field(default_factory=dict)
    gone: Mapping[tuple[str, str], float] = field(default_factory=dict)
    heard: Mapping[str, float] = field(default_factory=dict)
    calm: Mapping[str, float] = field(default_factory=dict)
    silent: Mapping[str, float] = field(default_factory=dict)
    wanted: Mapping[str, float] = field(default_factory=dict)


FATAL = frozenset({Cause.XID, Cause.ECC})
"""Hardware-fatal: one observation is evidence enough for a quarantine
(docs/method/node-conditions.md)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds of docs/method/node-conditions.md unless said otherwise.

    Attributes:
        mode: How far it may go.
        paused: A human's reason; empty = not paused.
        fresh: Seconds after which what was told is old: as alert CollectorStale.
        settle: Seconds without a finding until a node is healthy again. A choice of ours: a watch
            that lost its state needs its window, ten minutes, to be sure of a finding again.
        beat: Seconds between two writes of a condition that did not change; at most 300.
        coverage: Least share of the nodes that is heard; of two or more, one may always be silent.
        share, cap: Of the nodes that may be away at once, and at most so many.
        new, new_seconds: Quarantines at most in so many seconds.
        storm: Share of the nodes newly to be quarantined in `new_seconds` that opens the breaker.
        same: Share of the nodes with the same family degraded that opens it.
        healthy: Seconds without a fault until a release.
        again: Seconds within which another quarantine doubles `healthy`.
        week, thrice: So many quarantines within so many seconds: only a human releases.
    """

    mode: Mode = Mode.ANNOTATE
    paused: str = ""
    fresh: float = 120.0
    settle: float = 900.0
    beat: float = 240.0
    coverage: float = 0.8
    share: float = 0.1
    cap: int = 8
    new: int = 2
    new_seconds: float = 600.0
    storm: float = 0.2
    same: float = 0.5
    healthy: float = 1800.0
    again: float = 86400.0
    week: float = 7 * 86400.0
    thrice: int = 3
