"""The byte layout of a rank's ring file: written by workloads/ring.py, read with pread.

One file a rank under LOCKSTEP_DIR, named by `file_name`. Little-endian, one writer, no locks.
A header of 4,096 bytes is followed by 8,192 operation records and 1,024 step records.

What a reader must do:

* header: read it, and read it again if `guard` is odd or changed (a writer was inside);
* records: read the cursor, the slots, then the cursor `c` again. Record n lies in slot
  n % capacity, carries the guard n + 1, and is whole only if n > c - capacity (the slot of
  record c itself may be half-written).

All times are nanoseconds of CLOCK_MONOTONIC unless the name says wall.
"""

import re
from dataclasses import dataclass
from struct import Struct
from typing import Any, NamedTuple, Self

from lockstep.collector.contract.words import PHASES

# The names in a ring. Anybody who may write to LOCKSTEP_DIR can write a ring, and the collector may
# be root. A name therefore has to do as a label and as a part of a file's name: ASCII letters,
# digits, `.`, `_` and `-`, at most 63 characters (the id of a run, and what fits into the header
# beside a zero byte), and no dot at its beginning, so that it is neither `..` nor a hidden file. A
# reader refuses any other name; a writer maps its own into the type.

MAX_CHARACTERS = 63
PATTERN = rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{MAX_CHARACTERS - 1}}}"

_NAME = re.compile(PATTERN, re.ASCII)
_OTHER = re.compile(r"[^A-Za-z0-9._-]", re.ASCII)


class RingName(str):
    """A name of that form.

    Raises:
        ValueError: The text is no such name.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """The text, if it is a name."""
        if not _NAME.fullmatch(text):
            raise ValueError(
                f"{text!r} is no name; names are letters, digits, `.`, `_` and `-`, at most"
                f" {MAX_CHARACTERS}, and do not begin with a dot"
            )
        return super().__new__(cls, text)

    @classmethod
    def mapped(cls, text: str, empty: str) -> Self:
        """The name for any text: every other character is a `-`, and what is too long is cut.

        Args:
            text: As somebody gave it.
            empty: The name where nothing is left.
        """
        return cls(_OTHER.sub("-", text).lstrip(".")[:MAX_CHARACTERS] or empty)


MAGIC = b"LKSTRING"
VERSION = 2
"""Of what is written. Version 1 had no waiting in its step records; it is still read."""
HEADER_BYTES = 4096
OP_CAPACITY = 8192
STEP_CAPACITY = 1024
MAX_GROUPS = 8
MAX_TAGS = 64
MAX_VALUES = 8
VALUE_NAME_BYTES = 32
GROUP_NAME_BYTES = 16
TAG_NAME_BYTES = 32
FILE_SUFFIX = ".ring"
LOCAL_GROUP = 255
"""Group index of operations that need no peer (computation, data loading)."""
NO_TAG = 0xFFFF

IDENTITY_OFFSET = 0
IDENTITY = Struct("<8sII64s64s48s12i4q4I")
"""magic, version, header bytes, run, node, uuid,
rank, world, local_rank, attempt, pid, dp, pp, tp, ep, cp, gpu (-1 = none), reserved,
start_wall_ns, wall_minus_monotonic_ns, clock_offset_ns, clock_error_ns,
op capacity, step capacity, op record bytes, step record bytes. Written once."""

STATE_OFFSET = 320
STATE = Struct("<I")
"""Index into words.RANK_STATES."""

HEARTBEAT_OFFSET = 328
HEARTBEAT = Struct("<q")
"""heartbeat_ns, written at least every second by a helper thread; outside the guard."""

ROUND_TRIP_OFFSET = 336
ROUND_TRIP = Struct("<q")
"""Nanoseconds of a TCP round trip to the other hosts that the rank exchanges data with, the least
of its connections; 0 = nobody knows. One store of the helper thread, outside the guard."""

PID_NAMESPACE_OFFSET = 344
PID_NAMESPACE = Struct("<Q")
"""Inode of the PID namespace that the identity's pid is of (/proc/self/ns/pid, namespaces(7)).
Written once; 0 = nobody knows, as a writer leaves it that does not tell."""

LOCKED_OFFSET = 352
LOCKED = Struct("<Q")
"""1 = the writer holds an exclusive flock(2) on this file for as long as it has it mapped, so that
processes that cannot see its pid can ask whether it lives: LOCK_SH | LOCK_NB fails. Written once;
0 = it holds none, as a writer that does not tell, or a file system without locks."""

GUARD_OFFSET = 384
GUARD = Struct("<Q")
"""Even = consistent, odd = the writer is inside LIVE or COUNTERS."""

LIVE_OFFSET = 392
LIVE = Struct("<QQqIHBBqqq")
"""op cursor, step cursor (records written so far), step in progress, phase index,
open op index (0 = none), open group index, open flags, open sequence, open since_ns,
progress_ns."""

COUNTERS_OFFSET = 512
COUNTERS = Struct(f"<QqqqQQdd{len(PHASES)}q")
"""steps (after a resume it starts at the resumed step), wall_ns, own_ns, cpu_ns (of the training
thread), samples, tokens, model FLOPs, last loss (NaN = none), then ns by phase. Additive;
own_ns over the known steps only."""

KNOWN_OFFSET = 640
KNOWN = Struct("<Q")
"""Steps whose own time is known: every collective that the rank was in was timed. Additive, from 0
for this writer, inside the guard. A writer that does not count leaves 0: then nothing is known."""
OWN_UNKNOWN_NS = -1
"""In a step record: somebody else's collective was waited in, and nobody timed it."""

GROUP_COUNTERS_OFFSET = 704
GROUP_COUNTERS = Struct("<qQqq")
"""collective_ns (arrival to completion), collectives, enqueued sequence, completed sequence,
one entry for each of MAX_GROUPS groups. A sequence counts from 1; 0 = none yet."""

GROUP_NAMES_OFFSET = 1024
TAG_NAMES_OFFSET = GROUP_NAMES_OFFSET + MAX_GROUPS * GROUP_NAME_BYTES

VALUES_OFFSET = TAG_NAMES_OFFSET + MAX_TAGS * TAG_NAME_BYTES
VALUE = Struct(f"<{VALUE_NAME_BYTES}sd")
"""What the program says of itself (`recorder.log`): name, padded, and its last value (NaN = none
yet), one entry for each of MAX_VALUES; a name is written inside the guard and before its first
value, a value in one store outside it. A writer that tells none leaves zeros."""

MAX_PARTNERS = 8
EXCHANGE_OFFSET = VALUES_OFFSET + MAX_VALUES * VALUE.size
EXCHANGE = Struct("<QQQ")
"""Collectives and transfers that the rank's process groups began in its steps after the warm-up;
how many of them hand no work from rank to rank (averages of gradients, barriers, all-reduces of a
few numbers); whether there are groups or peers for which there was no room. Inside the guard, with
the two tables that follow. A writer that tells none leaves zeros."""
EXCHANGE_GROUP = Struct("<QQII")
"""A process group that data went through: a hash of its members (0 = unused), bytes, its size, and
collectives of unknown bytes; one entry for each of MAX_PARTNERS groups."""
EXCHANGE_PEER = Struct("<QII")
"""A rank that data was sent to or received from: bytes, its number, 1 (0 = unused); one entry for
each of MAX_PARTNERS peers."""

OP_RECORD = Struct("<HBBIIHHqqqQ")
"""op, group (LOCAL_GROUP = local work, sequence 0), flags, step, sequence, tag (index into the tag
names; NO_TAG = none), reserved, bytes, enqueue_ns, complete_ns, guard."""

STEP_RECORD = Struct(f"<IIqqqqq{len(PHASES)}qQddII")
"""step, step-tag bits, start_ns, wall_ns, cpu_ns, own_ns and wait_ns (both OWN_UNKNOWN_NS where not
known), ns by phase, tokens, FLOPs, loss, samples, and the lower 32 bits of the guard."""
STEP_RECORD_1 = Struct(f"<qqqqq{len(PHASES)}qIIQddQ")
"""That of version 1, of the same size: step, start_ns, wall_ns, cpu_ns, own_ns, ns by phase,
step-tag bits, samples, tokens, FLOPs, loss, guard. Waiting is the wall time without the own time.
"""
STEP_RECORDS = {1: STEP_RECORD_1, VERSION: STEP_RECORD}
"""By the versions that are read."""
STEP_WORD = (1 << 32) - 1
"""The step and the guard of a step record are theirs modulo this plus one."""

OPS_OFFSET = HEADER_BYTES
STEPS_OFFSET = OPS_OFFSET + OP_CAPACITY * OP_RECORD.size
FILE_BYTES = STEPS_OFFSET + STEP_CAPACITY * STEP_RECORD.size

MAX_COUNT = 1 << 53
"""A counter is at most this: beyond it is no exact number on a page (and 10^15 tokens were never
trained on)."""
MAX_STEP = (1 << 31) - 1
"""The first step of a run is at most this: an operation record holds twice as much."""
MOST_SAMPLES = (1 << 32) - 1
"""That a step record holds."""
MOST_BYTES = (1 << 63) - 1
"""That an operation record holds."""

FLAG_COMPLETION_IS_UPPER_BOUND = 1
"""The completion time is when `wait()` returned, not when the operation ended."""
FLAG_OVERLAPPED = 2
"""The operation ran beside computation; its time is not part of the rank's waiting."""
FLAG_NAMES: tuple[tuple[int, str], ...] = (
    (FLAG_COMPLETION_IS_UPPER_BOUND, "completion_is_upper_bound"),
    (FLAG_OVERLAPPED, "overlapped"),
)


class Identity(NamedTuple):
    """IDENTITY as it lies there: names are padded, `gpu` is -1 where there is none."""

    magic: bytes
    version: int
    header_bytes: int
    run: bytes
    node: bytes
    uuid: bytes
    rank: int
    world: int
    local_rank: int
    attempt: int
    pid: int
    dp: int
    pp: int
    tp: int
    ep: int
    cp: int
    gpu: int
    reserved: int
    start_wall_ns: int
    wall_minus_monotonic_ns: int
    clock_offset_ns: int
    clock_error_ns: int
    op_capacity: int
    step_capacity: int
    op_record_bytes: int
    step_record_bytes: int


class Live(NamedTuple):
    """LIVE: `phase`, `op` (0 = none) and `group` are indices."""

    op_cursor: int
    step_cursor: int
    step: int
    phase: int
    op: int
    group: int
    flags: int
    sequence: int
    since_ns: int
    progress_ns: int


class Counters(NamedTuple):
    """COUNTERS but those by phase."""

    steps: int
    wall_ns: int
    own_ns: int
    cpu_ns: int
    samples: int
    tokens: int
    flops: float
    loss: float


class GroupCounters(NamedTuple):
    """GROUP_COUNTERS of one group."""

    collective_ns: int
    collectives: int
    enqueued: int
    completed: int


class ExchangeGroup(NamedTuple):
    """EXCHANGE_GROUP."""

    members: int
    bytes: int
    size: int
    unseen: int


class ExchangePeer(NamedTuple):
    """EXCHANGE_PEER."""

    bytes: int
    rank: int
    used: int


class Exchange(NamedTuple):
    """EXCHANGE, and those entries of its tables that are used."""

    total: int
    plain: int
    left_out: int
    groups: tuple[ExchangeGroup, ...]
    peers: tuple[ExchangePeer, ...]


class Header:
    """The numbers and bytes of a header page, each decoded when it is asked for; nothing is judged.

    Args:
        page: HEADER_BYTES of a ring file.
    """

    def __init__(self, page: bytes) -> None:
        self._page = page

    @property
    def identity(self) -> Identity:
        """Written once."""
        return Identity._make(IDENTITY.unpack_from(self._page, IDENTITY_OFFSET))

    @property
    def state(self) -> int:
        """Index into words.RANK_STATES."""
        return int(STATE.unpack_from(self._page, STATE_OFFSET)[0])

    @property
    def heartbeat_ns(self) -> int:
        """When the helper thread last ran."""
        return int(HEARTBEAT.unpack_from(self._page, HEARTBEAT_OFFSET)[0])

    @property
    def round_trip_ns(self) -> int:
        """To the other hosts; 0 = nobody knows."""
        return int(ROUND_TRIP.unpack_from(self._page, ROUND_TRIP_OFFSET)[0])

    @property
    def pid_namespace(self) -> int:
        """Of the identity's pid; 0 = nobody knows."""
        return int(PID_NAMESPACE.unpack_from(self._page, PID_NAMESPACE_OFFSET)[0])

    @property
    def locked(self) -> bool:
        """Whether the writer's flock tells if it lives."""
        return bool(LOCKED.unpack_from(self._page, LOCKED_OFFSET)[0])

    @property
    def guard(self) -> int:
        """Odd = the writer was inside."""
        return int(GUARD.unpack_from(self._page, GUARD_OFFSET)[0])

    @property
    def live(self) -> Live:
        """Where the rank is."""
        return Live._make(LIVE.unpack_from(self._page, LIVE_OFFSET))

    @property
    def counters(self) -> Counters:
        """What the rank did."""
        return Counters._make(COUNTERS.unpack_from(self._page, COUNTERS_OFFSET)[:8])

    @property
    def phase_ns(self) -> tuple[int, ...]:
        """In the order of PHASES."""
        return COUNTERS.unpack_from(self._page, COUNTERS_OFFSET)[8:]

    @property
    def known_steps(self) -> int:
        """Steps whose own time is known."""
        return int(KNOWN.unpack_from(self._page, KNOWN_OFFSET)[0])

    @property
    def groups(self) -> tuple[GroupCounters, ...]:
        """MAX_GROUPS of them, used or not."""
        end = GROUP_COUNTERS_OFFSET + MAX_GROUPS * GROUP_COUNTERS.size
        part = self._page[GROUP_COUNTERS_OFFSET:end]
        return tuple(map(GroupCounters._make, GROUP_COUNTERS.iter_unpack(part)))

    @property
    def group_names(self) -> tuple[bytes, ...]:
        """Padded, by group index."""
        return self._names(GROUP_NAMES_OFFSET, MAX_GROUPS, GROUP_NAME_BYTES)

    @property
    def tags(self) -> tuple[bytes, ...]:
        """Padded, by tag index."""
        return self._names(TAG_NAMES_OFFSET, MAX_TAGS, TAG_NAME_BYTES)

    @property
    def values(self) -> tuple[tuple[bytes, float], ...]:
        """Padded name and last value of what the program says of itself; unused ones are empty."""
        end = VALUES_OFFSET + MAX_VALUES * VALUE.size
        return tuple(VALUE.iter_unpack(self._page[VALUES_OFFSET:end]))

    @property
    def exchange(self) -> Exchange:
        """With whom the rank exchanges data."""
        groups = EXCHANGE_OFFSET + EXCHANGE.size
        peers = groups + MAX_PARTNERS * EXCHANGE_GROUP.size
        end = peers + MAX_PARTNERS * EXCHANGE_PEER.size
        exchanged = map(ExchangeGroup._make, EXCHANGE_GROUP.iter_unpack(self._page[groups:peers]))
        others = map(ExchangePeer._make, EXCHANGE_PEER.iter_unpack(self._page[peers:end]))
        total, plain, left_out = EXCHANGE.unpack_from(self._page, EXCHANGE_OFFSET)
        return Exchange(
            total, plain, left_out, tuple(group for group in exchanged if group.members),
            tuple(peer for peer in others if peer.used),
        )  # fmt: skip

    def _names(self, offset: int, count: int, size: int) -> tuple[bytes, ...]:
        starts = range(offset, offset + count * size, size)
        return tuple(self._page[start : start + size] for start in starts)


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One operation of one rank; times are monotonic nanoseconds on the rank's own clock."""

    op: str
    group: str
    flags: int
    step: int
    sequence: int
    tag: str
    bytes: int
    enqueue_ns: int
    complete_ns: int


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One optimizer step of one rank; times in nanoseconds, `phase_ns` in the order of PHASES.

    `own_ns` and `wait_ns`, the time in blocking collectives from arrival to completion, are None
    where they are not known (OWN_UNKNOWN_NS); together they are `wall_ns`.
    """

    step: int
    start_ns: int
    wall_ns: int
    cpu_ns: int
    own_ns: int | None
    phase_ns: tuple[int, ...]
    tags: int
    samples: int
    tokens: int
    flops: float
    loss: float
    wait_ns: int | None = None


def step_record(slot: tuple[Any, ...], version: int = VERSION) -> StepRecord:
    """What a slot unpacked by STEP_RECORDS[version] says; nothing is judged."""
    if version == 1:
        step, start_ns, wall_ns, cpu_ns, own_ns, *phases, tags, samples, tokens, flops, loss, _ = (
            slot
        )
        wait_ns = wall_ns - own_ns
    else:
        (
            step, tags, start_ns, wall_ns, cpu_ns, own_ns, wait_ns, *phases, tokens, flops, loss,
            samples, _,
        ) = slot  # fmt: skip
    known = own_ns != OWN_UNKNOWN_NS
    return StepRecord(
        step, start_ns, wall_ns, cpu_ns, own_ns if known else None, tuple(phases), tags, samples,
        tokens, flops, loss, wait_ns if known else None,
    )  # fmt: skip


def file_name(rank: int) -> str:
    """The ring file of a rank inside its LOCKSTEP_DIR."""
    return f"rank-{rank}{FILE_SUFFIX}"
