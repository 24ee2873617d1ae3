"""The header of one ring file: who the rank is, how far it got, what it is inside now."""

import math
import os
from dataclasses import dataclass

from collector.clock import Clock
from collector.contract import ring
from collector.contract.words import OPS, PHASES, RANK_STATES, RankState
from collector.reading import SourceError

MAX_COUNT = 1 << 53
"""Beyond this a counter is no exact number on the page (and 10^15 tokens were never trained on)."""
AHEAD_NS = 1_000_000_000
"""How far a time of a rank may lie ahead of our clock: it goes on while its header is read."""
REREADS = 20
REREAD_SECONDS = 0.001
"""A writer is inside the guarded part for microseconds, unless the scheduler took its core away."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who writes the ring (contract.ring.IDENTITY); `gpu` and `uuid` are None on CPU."""

    run: str
    node: str
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


@dataclass(frozen=True, slots=True)
class Header:
    """One consistent reading of a ring's header.

    Attributes:
        live: None when the guard stayed odd: the writer was stopped or killed inside.
        group_names: By group index; "" = unused.
        tags: By tag index; "" = unused.
    """

    identity: Identity
    state: RankState
    heartbeat_ns: int
    live: Live | None
    group_names: tuple[str, ...]
    tags: tuple[str, ...]


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
    identity = _identity(page)
    (state,) = ring.STATE.unpack_from(page, ring.STATE_OFFSET)
    if state >= len(RANK_STATES):
        raise SourceError("content", f"rank state {state}; known are 0 to {len(RANK_STATES) - 1}")
    (heartbeat_ns,) = ring.HEARTBEAT.unpack_from(page, ring.HEARTBEAT_OFFSET)
    group_names = _names(
        page, ring.GROUP_NAMES_OFFSET, ring.MAX_GROUPS, ring.GROUP_NAME_BYTES, "group"
    )
    used = [name for name in group_names if name]
    if len(set(used)) != len(used):
        raise SourceError("content", f"the group names repeat: {', '.join(used)}")
    tags = _names(page, ring.TAG_NAMES_OFFSET, ring.MAX_TAGS, ring.TAG_NAME_BYTES, "tag")
    live = _live(page, group_names) if consistent else None
    if live is not None:
        _check_reach(live, round(clock.monotonic() * 1e9) + AHEAD_NS)
    if heartbeat_ns < 0:
        raise SourceError("content", "the heartbeat of the ring is below zero")
    return Header(identity, RANK_STATES[state], heartbeat_ns, live, group_names, tags)


def _identity(page: bytes) -> Identity:
    fields = ring.IDENTITY.unpack_from(page, ring.IDENTITY_OFFSET)
    magic, version, header_bytes, run, node, uuid = fields[:6]
    rank, world, local_rank, attempt, pid, dp, pp, tp, ep, cp, gpu, _reserved = fields[6:18]
    if magic != ring.MAGIC:
        raise SourceError("magic", f"ring begins with {magic!r}; it must be {ring.MAGIC!r}")
    if version != ring.VERSION:
        raise SourceError("version", f"ring version {version}; this collector reads {ring.VERSION}")
    sizes = (header_bytes, *fields[22:26])
    right = (
        ring.HEADER_BYTES, ring.OP_CAPACITY, ring.STEP_CAPACITY, ring.OP_RECORD.size,
        ring.STEP_RECORD.size,
    )  # fmt: skip
    if sizes != right:
        raise SourceError("version", f"ring layout {sizes}; this collector reads {right}")
    numbers = (rank, world, local_rank, attempt, pid, dp, pp, tp, ep, cp)
    places = (rank, local_rank, dp, pp, tp, ep, cp)
    if min(numbers) < 0 or max(places) >= world or gpu < -1:
        raise SourceError("content", f"identity of rank {rank} of {world} does not hold together")
    return Identity(
        _text(run, "run"), _text(node, "node"), _text(uuid, "uuid", empty=True) or None,
        *numbers, gpu if gpu >= 0 else None, *fields[18:22],
    )  # fmt: skip


def _live(page: bytes, group_names: tuple[str, ...]) -> Live:
    (
        op_cursor, step_cursor, _step, _phase, op, group, _flags, sequence, since_ns, progress_ns,
    ) = ring.LIVE.unpack_from(page, ring.LIVE_OFFSET)  # fmt: skip
    counters = ring.COUNTERS.unpack_from(page, ring.COUNTERS_OFFSET)
    steps, wall_ns, own_ns, cpu_ns, samples, tokens, flops, loss = counters[:8]
    (known_steps,) = ring.KNOWN.unpack_from(page, ring.KNOWN_OFFSET)
    phase_ns = counters[8 : 8 + len(PHASES)]
    groups = tuple(
        Group(name, *ring.GROUP_COUNTERS.unpack_from(page, offset))
        for index, name in enumerate(group_names)
        if name and (offset := ring.GROUP_COUNTERS_OFFSET + index * ring.GROUP_COUNTERS.size)
    )
    signed = [wall_ns, own_ns, cpu_ns, *phase_ns, since_ns, progress_ns]
    for one in groups:
        signed += (one.collective_ns, one.enqueued, one.completed)
    if min(signed) < 0 or not 0 <= flops < math.inf:
        raise SourceError("content", "a counter of the ring is below zero or endless")
    return Live(
        op_cursor, step_cursor, steps, wall_ns, own_ns, cpu_ns, samples, tokens, flops, loss,
        known_steps, phase_ns, groups, _open(op, group, sequence, since_ns, group_names),
        progress_ns,
    )  # fmt: skip


def _check_reach(live: Live, latest_ns: int) -> None:
    """Refuse counters that no rank of this boot can have reached; noise seldom looks otherwise.

    Raises:
        SourceError: One lies beyond the time that this machine is up, beyond its group's arrivals,
            beyond the steps, or beyond MAX_COUNT.
    """
    if max(live.wall_ns, live.own_ns, live.cpu_ns, *live.phase_ns) > latest_ns:
        raise SourceError("content", "a time of the ring is longer than this machine is up")
    for one in live.groups:
        # Overlapped operations add up to more than the time that passed, each to no more.
        most = latest_ns * max(1, one.collectives)
        if max(one.completed, one.collectives) > one.enqueued or one.collective_ns > most:
            raise SourceError("content", f"group {one.name} of the ring did more than it began")
    if live.known_steps > live.steps:
        raise SourceError("content", "the ring knows the own time of more steps than it made")
    counts = [live.steps, live.samples, live.tokens, live.op_cursor, live.step_cursor]
    if max(*counts, *(one.enqueued for one in live.groups)) > MAX_COUNT:
        raise SourceError("content", f"a counter of the ring is above {MAX_COUNT}")


def _open(
    op: int, group: int, sequence: int, since_ns: int, group_names: tuple[str, ...]
) -> OpenOperation | None:
    if op == 0:
        return None
    if op >= len(OPS) or group >= len(group_names) or not group_names[group]:
        raise SourceError("content", f"open operation {op} in group {group}; neither is known")
    return OpenOperation(OPS[op], group_names[group], sequence, since_ns)


def _names(page: bytes, offset: int, count: int, size: int, what: str) -> tuple[str, ...]:
    return tuple(
        _text(page[start : start + size], what, empty=True)
        for start in range(offset, offset + count * size, size)
    )


def _text(raw: bytes, what: str, *, empty: bool = False) -> str:
    try:
        text = raw.partition(b"\0")[0].decode()
    except UnicodeDecodeError as error:
        raise SourceError("encoding", f"the {what} name of the ring is not UTF-8") from error
    if not text.isprintable() or not (text or empty):
        raise SourceError("content", f"the {what} name of the ring is {text!r}")
    return text
