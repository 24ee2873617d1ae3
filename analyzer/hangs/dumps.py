"""What a flight-recorder dump holds of one rank, and what other sensors report beside it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lockstep.collector.contract.stacks import Stacks

WORLD = "0"
"""torch's name of the group of all ranks."""


class State(StrEnum):
    """Of an operation; gloo and NCCL without timing never say that one started."""

    SCHEDULED = "scheduled"
    STARTED = "started"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Transfer:
    """The point-to-point half of an operation: who exchanges with whom, as ranks of the group."""

    me: int
    peer: int
    sends: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """One recorded operation.

    Attributes:
        group: torch's name of the process group, the same on all its ranks.
        sequence: Counts from 1 in its group: collectives alone, or for a transfer those alone;
            transfers that were launched together share one.
        order: In which the rank enqueued it, over all groups.
        created: Unix time, seconds.
        inputs: Shape of each input.
        timeout: Seconds after which torch gives up; None = not known.
    """

    group: str
    sequence: int
    op: str
    order: int
    created: float
    state: State
    inputs: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    transfer: Transfer | None = None
    retired: bool = False
    completed: float | None = None
    timeout: float | None = None

    @property
    def done(self) -> bool:
        """Whether the rank saw it complete."""
        return self.state is State.COMPLETED


@dataclass(frozen=True, slots=True)
class GroupTrace:
    """A process group as one rank saw it; None = not known.

    Attributes:
        members: Its ranks in the group's own order; empty where torch does not list them.
        enqueued: Sequence of the last operation that the host has handed over: torch raises it once
            the call of the communication library has returned. Where transfers share the group, of
            either kind.
        started: Sequence of the last operation that the device has begun, where torch times them.
        collectives: Sequence of the last collective, by the ring; None = the ring holds none.
    """

    name: str
    description: str = ""
    members: tuple[int, ...] = ()
    enqueued: int | None = None
    started: int | None = None
    completed: int | None = None
    collectives: int | None = None
    transfers: bool = False


@dataclass(frozen=True, slots=True)
class Unmapped:
    """Counters of a group that the dump does not name."""

    handle: int
    enqueued: int | None
    completed: int | None


@dataclass(frozen=True, slots=True)
class RankTrace:
    """One rank's dump.

    Attributes:
        written: Unix time; None = the dump does not say.
        last_event: Unix time of the last thing in it; None = it holds no operation.
        quiet: Longest time between two operations, and of one, in seconds: how long this rank has
            been seen to wait in a healthy run.
        open: What had not completed, in the order of enqueueing.
        recent: The last completed operations of each group.
        unmapped: Counters of groups of which it is not known what group they are.
        backend: As nccl or gloo; "" = no operation shows it.
    """

    rank: int
    written: float | None
    last_event: float | None
    quiet: float
    groups: Mapping[str, GroupTrace]
    open: tuple[Operation, ...] = ()
    recent: tuple[Operation, ...] = ()
    unmapped: tuple[Unmapped, ...] = ()
    backend: str = ""
    version: str = ""
    notes: tuple[str, ...] = ()


class FactKind(StrEnum):
    """What else may be known of a rank; each is optional."""

    PROCESS_STATE = "process-state"
    EXITED = "exited"
    HEARTBEAT_AGE = "heartbeat-age"
    STACK = "stack"
    GPU_STATE = "gpu-state"
    XID = "xid"
    KERNEL = "kernel"
    RAS = "ras"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that another sensor reports about a rank.

    Attributes:
        value: The letter of /proc/PID/stat ("T"), the exit code ("-9"), seconds ("41.5"), the
            stack's lines, the XID ("79"), the kernel's line, RAS's word ("missing").
    """

    rank: int
    kind: FactKind
    value: str


@dataclass(frozen=True, slots=True)
class Dumps:
    """The dumps of one job, by rank, and what else is known.

    Attributes:
        world: Its ranks as far as the dumps show.
        rejected: What could not be read, and why.
        stacks: Of ranks whose stacks were taken, by rank.
    """

    traces: Mapping[int, RankTrace]
    world: tuple[int, ...]
    facts: tuple[Fact, ...] = ()
    rejected: tuple[str, ...] = ()
    stacks: tuple[Stacks, ...] = ()
