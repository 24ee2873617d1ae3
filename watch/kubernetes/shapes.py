"""Nodes, faults, actions, errors, the state between decisions. Times are unix seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from lockstep.collector.contract.kubernetes import Family
from lockstep.collector.contract.words import FAMILY, Cause


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


# Why a request to a cluster failed.


class SetupError(ValueError):
    """There is no way to a cluster here; the message says why."""


class ApiError(Exception):
    """A request came to nothing; the message is a sentence without its end."""


class UnreachableError(ApiError):
    """Nobody answered, or too late, or the server could not: it may be tried again."""


class RefusedError(ApiError):
    """Not allowed, or wrong: trying again changes nothing."""


class LacksRightError(RefusedError):
    """The account may not: other objects of the kind would most likely be refused as well."""


class ConflictError(ApiError):
    """The object has changed since it was read, or exists already."""


class GoneError(ApiError):
    """There is no such object."""


# What is remembered from one decision to the next.

OLDER = "OlderThanReset"
"""Reason of a condition: the memory of what was open before a reset, for whoever comes after us."""


def remembered(
    nodes: Sequence[Node], watch_state: WatchState, state: State, now: float, settings: Settings
) -> State:
    """The state, with what is told now.

    What is absent counts only while its node is heard: silence ends no fault and proves no health.
    """
    met = {*state.heard, *state.silent, *(uid for uid, _ in state.first)}
    first, gone, heard, calm, silent = {}, {}, {}, {}, {}
    for node in nodes:
        open_now = {fault.id: fault for fault in watch_state.faults.get(node.name, ())}
        for fault, one in open_now.items():
            key = node.uid, fault
            written = node.faults.get(fault)
            # Of a node that is not met yet, its condition is all that a restart leaves.
            older = node.uid not in met and _is_older(one, node)
            began = float("-inf") if older else now
            first[key] = written.since if written else state.first.get(key, began)
        if not is_heard(node, watch_state, settings):
            silent[node.uid] = state.silent.get(node.uid, now)
            continue
        heard[node.uid] = state.heard.get(node.uid, now)
        for fault in node.faults.keys() - open_now.keys():
            gone[node.uid, fault] = state.gone.get((node.uid, fault), now)
        if not open_now:
            calm[node.uid] = state.calm.get(node.uid, now)
    return replace(state, first=first, gone=gone, heard=heard, calm=calm, silent=silent)


def blind(state: State) -> State:
    """The state after a look that told nothing: what is absent is timed anew."""
    return replace(state, gone={}, heard={}, calm={}, silent={})


def is_heard(node: Node, watch_state: WatchState, settings: Settings) -> bool:
    """Whether the collector of a node was scraped lately; both times are of Prometheus' clock."""
    return watch_state.judged - watch_state.heard.get(node.name, float("-inf")) <= settings.fresh


def _is_older(fault: Fault, node: Node) -> bool:
    """Whether the node says of the fault's family that what is open is older than a reset."""
    said = node.conditions.get(FAMILY.get(fault.cause, Family.STRAGGLER))
    return said is not None and said.reason == OLDER


# Actions on nodes, and the state after them.


@dataclass(frozen=True, slots=True)
class Write:
    """Conditions and the annotation of one node, in one patch.

    Attributes:
        node: As it was when this was decided.
        conditions: Those that are written; others stay.
        faults: All of the node.
        begun: Faults that were not written before.
        ended: Those that were, and no longer are.
    """

    node: Node
    conditions: Mapping[str, Condition]
    faults: Mapping[str, Known]
    begun: Mapping[str, Known] = field(default_factory=dict)
    ended: Mapping[str, Known] = field(default_factory=dict)

    @property
    def tells(self) -> bool:
        """Whether it is more than a heartbeat."""
        return bool(self.begun or self.ended)


@dataclass(frozen=True, slots=True)
class Taint:
    """Our taint comes to a node."""

    node: Node
    family: Family
    quarantine: Quarantine


@dataclass(frozen=True, slots=True)
class Release:
    """Our taint leaves a node."""

    node: Node
    quarantine: Quarantine


Action = Write | Taint | Release


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done, and what is to be remembered.

    Attributes:
        actions: At most one Write, and one Taint or Release, a node.
        state: For the next decision.
        held: Why no finding is written, at most that silent nodes are Unknown; empty = it may be.
        skipped: Node -> why it is not quarantined although it should be.
    """

    actions: tuple[Action, ...]
    state: State
    held: str = ""
    skipped: Mapping[str, str] = field(default_factory=dict)
