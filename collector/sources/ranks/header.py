"""The header of one ring file: who the rank is, how far it got, what it is inside now."""

import math
import os
from dataclasses import dataclass

from lockstep.collector.clock import Clock
from lockstep.collector.contract import ring
from lockstep.collector.contract.ring import RingName
from lockstep.collector.contract.words import OPS, PHASES, RANK_STATES, RankState
from lockstep.collector.readings.source import SourceError

AHEAD_NS = 1_000_000_000
"""How far a time of a rank may lie ahead of our clock: it goes on while its header is read."""
LONGEST_TRIP_NS = 120_000_000_000
"""TCP sends again after that at most (TCP_RTO_MAX in the kernel's include/net/tcp.h)."""
REREADS = 20
REREAD_SECONDS = 0.001
"""A writer is inside the guarded part for microseconds, unless the scheduler took its core away."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who writes the ring (contract.ring.IDENTITY); `gpu` and `uuid` are None on CPU."""

    run: RingName
    node: RingName
    uuid: str | None
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
    gpu: int | None
    start_wall_ns: int
    wall_minus_monotonic_ns: int
    clock_offset_ns: int
    clock_error_ns: int


@dataclass(frozen=True, slots=True)
class Group:
    """Counters of one process group, additive since the rank started."""

    name: str
    collective_ns: int
    collectives: int
    enqueued: int
    completed: int


@dataclass(frozen=True, slots=True)
class OpenOperation:
    """The collective the rank is inside now; `since_ns` on CLOCK_MONOTONIC."""

    op: str
    group: str
    sequence: int
    since_ns: int


@dataclass(frozen=True, slots=True)
class Live:
    """The guarded part of the header; times in nanoseconds, `phase_ns` in the order of PHASES."""

    op_cursor: int
    step_cursor: int
    steps: int
    wall_ns: int
    own_ns: int
    cpu_ns: int
    samples: int
    tokens: int
    flops: float
    loss: float
    known_steps: int
    phase_ns: tuple[int, ...]
    groups: tuple[Group, ...]
    open: OpenOperation | None
    progress_ns: int
    phase: str = ""
    """Of PHASES, the one under way; "" = not told."""
    values: tuple[tuple[str, float], ...] = ()
    """Name and last value of what the program says of itself; NaN = none yet."""
    exchange: ring.Exchange | None = None
    """With whom the rank exchanges data; None = not told."""


@dataclass(frozen=True, slots=True)
class Header:
    """One consistent reading of a ring's header.

    Attributes:
        live: None when the guard stayed odd: the writer was stopped or killed inside.
        group_names: By group index; "" = unused.
        tags: By tag index; "" = unused.
        round_trip_ns: To the other hosts, over TCP; 0 = nobody knows.
        version: Of the layout.
    """

    identity: Identity
    state: RankState
    heartbeat_ns: int
    live: Live | None
    group_names: tuple[str, ...]
    tags: tuple[str, ...]
    round_trip_ns: int = 0
    version: int = ring.VERSION


def check_size(descriptor: int) -> None:
    """The file has exactly the contract's size.

    Raises:
        SourceError: It does not.
    """
    size = os.fstat(descriptor).st_size
    if size != ring.FILE_BYTES:
        raise SourceError("size", f"ring of {size} bytes; it must be {ring.FILE_BYTES}")


def read_header(descriptor: int, clock: Clock) -> Header:
    """Read a header whose guarded part is consistent, rereading while a writer is inside.

    Raises:
        SourceError: Too short, foreign magic or version, or content no writer of ours makes.
    """
    for _ in range(REREADS):
        before = _guard(descriptor)
        page = _pread(descriptor, ring.HEADER_BYTES, 0)
        # The guard is read on its own on both sides: a copy of the page is not one moment.
        if before % 2 == 0 and _guard(descriptor) == before:
            return _decode(page, clock, consistent=True)
        clock.sleep(REREAD_SECONDS)
    return _decode(page, clock, consistent=False)


def read_cursors(descriptor: int) -> tuple[int, int]:
    """(operations, steps) written so far; each is one aligned word, so no guard is needed."""
    words = _pread(descriptor, 16, ring.LIVE_OFFSET)
    return int.from_bytes(words[:8], "little"), int.from_bytes(words[8:], "little")


def _guard(descriptor: int) -> int:
    guard: int = ring.GUARD.unpack(_pread(descriptor, ring.GUARD.size, ring.GUARD_OFFSET))[0]
    return guard


def _pread(descriptor: int, size: int, offset: int) -> bytes:
    data = os.pread(descriptor, size, offset)
    if len(data) != size:
        raise SourceError("truncated", f"ring ends after {offset + len(data)} bytes")
    return data


def _decode(page: bytes, clock: Clock, *, consistent: bool) -> Header:
    header = ring.Header(page)
    identity = _identity(header.identity)
    state = header.state
    if state >= len(RANK_STATES):
        raise SourceError("content", f"rank state {state}; known are 0 to {len(RANK_STATES) - 1}")
    heartbeat_ns = header.heartbeat_ns
    group_names = tuple(_name(raw, "group") for raw in header.group_names)
    used = [name for name in group_names if name]
    if len(set(used)) != len(used):
        raise SourceError("content", f"the group names repeat: {', '.join(used)}")
    # A tag is words for people, and never a part of a path.
    tags = tuple(_text(raw, "tag") for raw in header.tags)
    live = _live(header, group_names) if consistent else None
    if live is not None:
        _check_reach(live, round(clock.monotonic() * 1e9) + AHEAD_NS)
    if heartbeat_ns < 0:
        raise SourceError("content", "the heartbeat of the ring is below zero")
    trip = header.round_trip_ns
    if not 0 <= trip <= LONGEST_TRIP_NS:
        raise SourceError("content", f"the ring has a round trip of {trip} ns")
    return Header(
        identity, RANK_STATES[state], heartbeat_ns, live, group_names, tags, trip,
        header.identity.version,
    )  # fmt: skip


def _identity(identity: ring.Identity) -> Identity:
    if identity.magic != ring.MAGIC:
        raise SourceError(
            "magic", f"ring begins with {identity.magic!r}; it must be {ring.MAGIC!r}"
        )
    if identity.version not in ring.STEP_RECORDS:
        versions = " and ".join(map(str, ring.STEP_RECORDS))
        raise SourceError(
            "version",
            f"ring version {identity.version}; this collector reads {versions}: update the"
            " collector",
        )
    sizes = (identity.header_bytes, *identity[-4:])
    right = (
        ring.HEADER_BYTES, ring.OP_CAPACITY, ring.STEP_CAPACITY, ring.OP_RECORD.size,
        ring.STEP_RECORD.size,
    )  # fmt: skip
    if sizes != right:
        raise SourceError("version", f"ring layout {sizes}; this collector reads {right}")
    numbers = identity[6:16]
    places = (
        identity.rank,
        identity.local_rank,
        identity.dp,
        identity.pp,
        identity.tp,
        identity.ep,
        identity.cp,
    )
    if min(numbers) < 0 or max(places) >= identity.world or identity.gpu < -1:
        raise SourceError(
            "content",
            f"identity of rank {identity.rank} of {identity.world} does not hold together",
        )
    return Identity(
        _ring_name(identity.run, "run"), _ring_name(identity.node, "node"),
        _text(identity.uuid, "uuid") or None,
        *numbers, identity.gpu if identity.gpu >= 0 else None, *identity[18:22],
    )  # fmt: skip


def _live(header: ring.Header, group_names: tuple[str, ...]) -> Live:
    live, counters, phase_ns = header.live, header.counters, header.phase_ns
    groups = tuple(
        Group(name, *counts)
        for name, counts in zip(group_names, header.groups, strict=True)
        if name
    )
    signed = [counters.wall_ns, counters.own_ns, counters.cpu_ns, *phase_ns]
    signed += (live.since_ns, live.progress_ns)
    for group in groups:
        signed += (group.collective_ns, group.enqueued, group.completed)
    if min(signed) < 0 or not 0 <= counters.flops < math.inf:
        raise SourceError("content", "a counter of the ring is below zero or endless")
    return Live(
        live.op_cursor, live.step_cursor, *counters, header.known_steps, phase_ns, groups,
        _open(live, group_names), live.progress_ns,
        PHASES[live.phase] if live.phase < len(PHASES) else "", _values(header), _exchange(header),
    )  # fmt: skip


def _exchange(header: ring.Header) -> ring.Exchange | None:
    """None where nobody told, or ranks are told that the run has not."""
    exchange, world = header.exchange, header.identity.world
    ranks = [
        *(group.size - 1 for group in exchange.groups),
        *(peer.rank for peer in exchange.peers),
    ]
    sound = exchange.plain <= exchange.total and all(0 <= rank < world for rank in ranks)
    return exchange if exchange.total and sound else None


def _values(header: ring.Header) -> tuple[tuple[str, float], ...]:
    named = [(_name(name, "value"), value) for name, value in header.values]
    used = [(name, value) for name, value in named if name]
    names = [name for name, _ in used]
    if len(set(names)) != len(names):
        raise SourceError("content", f"the value names repeat: {', '.join(names)}")
    return tuple(used)


def _check_reach(live: Live, latest_ns: int) -> None:
    """Refuse counters that no rank of this boot can have reached; noise seldom looks otherwise.

    Raises:
        SourceError: One lies beyond the time that this machine is up, beyond its group's arrivals,
            beyond the steps, or beyond ring.MAX_COUNT.
    """
    if max(live.wall_ns, live.own_ns, live.cpu_ns, *live.phase_ns) > latest_ns:
        raise SourceError("content", "a time of the ring is longer than this machine is up")
    for group in live.groups:
        # Overlapped operations add up to more than the time that passed, each to no more.
        most = latest_ns * max(1, group.collectives)
        if max(group.completed, group.collectives) > group.enqueued or group.collective_ns > most:
            raise SourceError("content", f"group {group.name} of the ring did more than it began")
    if live.known_steps > live.steps:
        raise SourceError("content", "the ring knows the own time of more steps than it made")
    counts = [live.steps, live.samples, live.tokens, live.op_cursor, live.step_cursor]
    if max(*counts, *(group.enqueued for group in live.groups)) > ring.MAX_COUNT:
        raise SourceError("content", f"a counter of the ring is above {ring.MAX_COUNT}")


def _open(live: ring.Live, group_names: tuple[str, ...]) -> OpenOperation | None:
    op, group = live.op, live.group
    if op == 0:
        return None
    if op >= len(OPS) or group >= len(group_names) or not group_names[group]:
        raise SourceError("content", f"open operation {op} in group {group}; neither is known")
    return OpenOperation(OPS[op], group_names[group], live.sequence, live.since_ns)


def _name(raw: bytes, what: str) -> str:
    """The name, empty where the place is unused."""
    return _ring_name(raw, what) if raw[:1] != b"\0" else ""


def _ring_name(raw: bytes, what: str) -> RingName:
    text = _text(raw, what)
    try:
        return RingName(text)
    except ValueError as error:
        raise SourceError("content", f"the {what} of the ring: {error}") from error


def _text(raw: bytes, what: str) -> str:
    try:
        text = raw.partition(b"\0")[0].decode()
    except UnicodeDecodeError as error:
        raise SourceError("encoding", f"the {what} of the ring is not UTF-8") from error
    if not text.isprintable():
        raise SourceError("content", f"the {what} of the ring is {text!r}")
    return text
