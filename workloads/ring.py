"""The writer of a rank's ring file (layout: collector/contract/ring.py): one writer, no locks."""

import math
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import GROUPS, OPS, PHASES, RANK_STATES, RankState
from lockstep.workloads.ring_file import Identity, create, padded

__all__ = ["GROUP_INDEX", "OP_INDEX", "Identity", "RingWriter"]

OP_INDEX = {op: index for index, op in enumerate(OPS)}
GROUP_INDEX = {group: index for index, group in enumerate(GROUPS)}

_LOCAL = ring.LOCAL_GROUP
_OP_MASK = ring.OP_CAPACITY - 1
_STEP_MASK = ring.STEP_CAPACITY - 1
_WORD = ring.STEP_WORD
"""What a record holds of a sequence or a step, which pass it after months."""
_COUNTED = slice(4, 6)
"""Samples and tokens among COUNTERS."""

# Indices of 8-byte words: a word is written in one store, and in a tenth of a struct's time.
_HEARTBEAT = ring.HEARTBEAT_OFFSET // 8
_GUARD = ring.GUARD_OFFSET // 8
_OP_CURSOR = ring.LIVE_OFFSET // 8
_STEP_CURSOR = _OP_CURSOR + 1
_STEP = _OP_CURSOR + 2
_DOING = _OP_CURSOR + 3
"""phase (32 bits), open op (16), open group (8), open flags (8): LIVE's `IHBB` as one word."""
_OPEN_SEQUENCE = _OP_CURSOR + 4
_OPEN_SINCE = _OP_CURSOR + 5
_PROGRESS = _OP_CURSOR + 6
_ROUND_TRIP = ring.ROUND_TRIP_OFFSET // 8
_CLOCK = (ring.IDENTITY_OFFSET + ring.IDENTITY.size - 4 * 4 - 2 * 8) // 8
"""clock_offset_ns, and clock_error_ns after it."""
_KNOWN = ring.KNOWN_OFFSET // 8
_GROUPS = ring.GROUP_COUNTERS_OFFSET // 8
_VALUES = (ring.VALUES_OFFSET + ring.VALUE_NAME_BYTES) // 8
_WORDS_PER_VALUE = ring.VALUE.size // 8
_WORDS_PER_GROUP = ring.GROUP_COUNTERS.size // 8


class RingWriter:
    """Records one rank's operations and steps.

    The training thread is the only caller, except for `heartbeat` and `round_trip`. Local work is
    recorded by `local`, a collective by `begin` and `end` around the call. A record costs about a
    microsecond and no system call (tests/benchmarks/recording.py). Words are stored in the
    machine's byte order, which is the contract's on every machine that torch runs on
    (little-endian).
    """

    def __init__(
        self, path: Path, identity: Identity, first_step: int = 0,
        now: Callable[[], int] = monotonic_ns,
    ) -> None:  # fmt: skip
        self._map, hidden, self.inode = create(path, identity)
        try:
            self._begin(path, identity, first_step, now)
            hidden.rename(path)  # a reader never sees half an identity
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise

    def _begin(
        self, path: Path, identity: Identity, first_step: int, now: Callable[[], int]
    ) -> None:
        self._words = memoryview(self._map).cast("q")
        self._doubles = memoryview(self._map).cast("d")
        self.path = path
        self.identity = identity
        self._now = now
        self._guard = 0
        self._ops = 0
        self._steps_written = 0
        self._known_steps = 0
        self._step = first_step
        self._phase = 0
        self._totals = [first_step, 0, 0, 0, 0, 0, 0.0, math.nan, *([0] * len(PHASES))]
        self._sequences = [0] * ring.MAX_GROUPS
        self._tags: dict[str, int] = {}
        self._values: dict[str, int] = {}
        self.state(RankState.STARTING)
        self.heartbeat()
        self.phase(0)
        self._words[_STEP] = first_step
        ring.COUNTERS.pack_into(self._map, ring.COUNTERS_OFFSET, *self._totals)

    def inode_in_place(self) -> int | None:
        """Of the file where this one was put; None where there is none any more.

        Raises:
            OSError: Nobody may look.
        """
        try:
            return os.lstat(self.path).st_ino
        except (FileNotFoundError, NotADirectoryError):
            return None

    def discard(self) -> None:
        """Take the ring away, if it is still in its place: nothing was recorded."""
        with suppress(OSError):
            if self.inode_in_place() == self.inode:
                self.path.unlink()

    def state(self, state: RankState) -> None:
        """Say how the rank is."""
        ring.STATE.pack_into(self._map, ring.STATE_OFFSET, RANK_STATES.index(state))

    def heartbeat(self) -> None:
        """Say that the process still runs; called by a helper thread."""
        self._words[_HEARTBEAT] = monotonic_ns()

    def round_trip(self, nanoseconds: int) -> None:
        """Say how long one to the other hosts takes; 0 = nobody knows. Of a helper thread, too."""
        self._words[_ROUND_TRIP] = nanoseconds

    def clock(self, offset_ns: int, error_ns: int) -> None:
        """Say how this rank's clock lies to the run's (Identity.clock_offset_ns)."""
        words = self._words
        guard = self._guard
        words[_GUARD] = guard + 1
        words[_CLOCK] = offset_ns
        words[_CLOCK + 1] = error_ns
        words[_GUARD] = self._guard = guard + 2

    def tag(self, name: str) -> int:
        """Index of a tag name, entered into the table on first use; NO_TAG when it is full."""
        index = self._tags.get(name)
        if index is None:
            index = len(self._tags)
            if index >= ring.MAX_TAGS:
                return ring.NO_TAG
            self._tags[name] = index
            offset = ring.TAG_NAMES_OFFSET + index * ring.TAG_NAME_BYTES
            encoded = padded(name, ring.TAG_NAME_BYTES)
            self._map[offset : offset + len(encoded)] = encoded
        return index

    def value(self, name: str, value: float) -> bool:
        """Say a value of the program's own; False = its name has no room any more."""
        index = self._values.get(name)
        if index is None:
            index = len(self._values)
            if index >= ring.MAX_VALUES:
                return False
            self._values[name] = index
            offset = ring.VALUES_OFFSET + index * ring.VALUE.size
            encoded = padded(name, ring.VALUE_NAME_BYTES)
            guard = self._guard
            self._words[_GUARD] = guard + 1  # a name is several words
            ring.VALUE.pack_into(self._map, offset, encoded, math.nan)
            self._words[_GUARD] = self._guard = guard + 2
        self._doubles[_VALUES + index * _WORDS_PER_VALUE] = value
        return True

    def exchange(self, exchange: ring.Exchange) -> None:
        """Say with whom the rank exchanges data; at most ring.MAX_PARTNERS groups and peers."""
        groups = b"".join(ring.EXCHANGE_GROUP.pack(*group) for group in exchange.groups)
        page = ring.EXCHANGE.pack(exchange.total, exchange.plain, exchange.left_out)
        page += groups.ljust(ring.MAX_PARTNERS * ring.EXCHANGE_GROUP.size, b"\0")
        page += b"".join(ring.EXCHANGE_PEER.pack(*peer) for peer in exchange.peers)
        guard = self._guard
        self._words[_GUARD] = guard + 1
        self._map[ring.EXCHANGE_OFFSET : ring.EXCHANGE_OFFSET + len(page)] = page
        self._words[_GUARD] = self._guard = guard + 2

    def phase(self, index: int) -> int:
        """Enter a phase (index into PHASES) of the step in progress; returns the time."""
        now = self._now()
        self._phase = index
        self._words[_DOING] = index
        self._words[_PROGRESS] = now
        return now

    def begin(self, op: int, group: int) -> int:
        """Arrive at a collective; returns the arrival time for `end`."""
        words = self._words
        sequence = self._sequences[group] = self._sequences[group] + 1
        now = self._now()
        guard = self._guard
        words[_GUARD] = guard + 1
        words[_DOING] = self._phase | op << 32 | group << 48
        words[_OPEN_SEQUENCE] = sequence
        words[_OPEN_SINCE] = now
        words[_PROGRESS] = now
        words[_GROUPS + _WORDS_PER_GROUP * group + 2] = sequence
        words[_GUARD] = self._guard = guard + 2
        return now

    def end(self, op: int, group: int, arrival_ns: int, size: int, tag: int, flags: int = 0) -> int:
        """Complete the collective begun at `arrival_ns`; returns its duration in nanoseconds."""
        now = self._now()
        words = self._words
        sequence = self._sequences[group]
        counters = _GROUPS + _WORDS_PER_GROUP * group
        number = self._ops
        ring.OP_RECORD.pack_into(
            self._map,
            ring.OPS_OFFSET + (number & _OP_MASK) * ring.OP_RECORD.size,
            op, group, flags, self._step, sequence & _WORD, tag, 0, size, arrival_ns, now,
            number + 1,
        )  # fmt: skip
        guard = self._guard
        words[_GUARD] = guard + 1
        words[_OP_CURSOR] = self._ops = number + 1
        words[_DOING] = self._phase
        words[_OPEN_SINCE] = 0
        words[_PROGRESS] = now
        words[counters] += now - arrival_ns
        words[counters + 1] += 1
        words[counters + 3] = sequence
        words[_GUARD] = self._guard = guard + 2
        return now - arrival_ns

    def enqueue(self, group: int) -> tuple[int, int]:
        """Arrive at an operation that goes on beside other work: its sequence and the time."""
        sequence = self._sequences[group] = self._sequences[group] + 1
        now = self._now()
        words = self._words
        guard = self._guard
        words[_GUARD] = guard + 1
        words[_PROGRESS] = now
        words[_GROUPS + _WORDS_PER_GROUP * group + 2] = sequence
        words[_GUARD] = self._guard = guard + 2
        return sequence, now

    def await_(self, op: int, group: int, sequence: int) -> int:
        """Begin to wait for an operation that was enqueued before; returns the time."""
        now = self._now()
        words = self._words
        guard = self._guard
        words[_GUARD] = guard + 1
        words[_DOING] = self._phase | op << 32 | group << 48
        words[_OPEN_SEQUENCE] = sequence
        words[_OPEN_SINCE] = now
        words[_PROGRESS] = now
        words[_GUARD] = self._guard = guard + 2
        return now

    def complete(
        self, op: int, group: int, sequence: int, arrival_ns: int, since_ns: int, size: int,
        tag: int, flags: int, ended_ns: int | None = None,
    ) -> int:  # fmt: skip
        """End the wait begun at `since_ns`; returns how long it took in nanoseconds.

        The record spans arrival to `ended_ns`, or now if nobody knows; only the wait counts as
        time in collectives.
        """
        now = self._now()
        ended = now if ended_ns is None else min(now, ended_ns)
        words = self._words
        counters = _GROUPS + _WORDS_PER_GROUP * group
        number = self._ops
        ring.OP_RECORD.pack_into(
            self._map,
            ring.OPS_OFFSET + (number & _OP_MASK) * ring.OP_RECORD.size,
            op, group, flags, self._step, sequence & _WORD, tag, 0, size, arrival_ns, ended,
            number + 1,
        )  # fmt: skip
        guard = self._guard
        words[_GUARD] = guard + 1
        words[_OP_CURSOR] = self._ops = number + 1
        words[_DOING] = self._phase
        words[_OPEN_SINCE] = 0
        words[_PROGRESS] = now
        words[counters] += now - since_ns
        words[counters + 1] += 1
        words[counters + 3] = max(words[counters + 3], sequence)
        words[_GUARD] = self._guard = guard + 2
        return now - since_ns

    def local(self, op: int, start_ns: int, end_ns: int, tag: int = ring.NO_TAG) -> None:
        """Record work that needed no peer."""
        number = self._ops
        ring.OP_RECORD.pack_into(
            self._map,
            ring.OPS_OFFSET + (number & _OP_MASK) * ring.OP_RECORD.size,
            op, _LOCAL, 0, self._step, 0, tag, 0, 0, start_ns, end_ns, number + 1,
        )  # fmt: skip
        self._words[_OP_CURSOR] = self._ops = number + 1
        self._words[_PROGRESS] = end_ns

    def end_step(
        self,
        *,
        start_ns: int,
        wall_ns: int,
        cpu_ns: int,
        own_ns: int | None,
        wait_ns: int | None,
        phase_ns: list[int],
        tags: int,
        samples: int,
        tokens: int,
        flops: float,
        loss: float,
    ) -> None:
        """Close the step in progress and add it to the counters.

        Args:
            own_ns: None where a collective was waited in that nobody timed.
            wait_ns: Time in blocking collectives, arrival to completion; None likewise.
        """
        written = self._steps_written
        ring.STEP_RECORD.pack_into(
            self._map,
            ring.STEPS_OFFSET + (written & _STEP_MASK) * ring.STEP_RECORD.size,
            self._step & _WORD, tags, start_ns, wall_ns, cpu_ns,
            ring.OWN_UNKNOWN_NS if own_ns is None else own_ns,
            ring.OWN_UNKNOWN_NS if wait_ns is None else wait_ns, *phase_ns, tokens, flops, loss,
            samples, (written + 1) & _WORD,
        )  # fmt: skip
        totals = self._totals
        for index, value in enumerate((1, wall_ns, own_ns or 0, cpu_ns, samples, tokens, flops)):
            totals[index] += value
        totals[_COUNTED] = [min(each, ring.MAX_COUNT) for each in totals[_COUNTED]]
        totals[7] = loss
        for index, value in enumerate(phase_ns, start=8):
            totals[index] += value
        words = self._words
        guard = self._guard
        words[_GUARD] = guard + 1
        words[_STEP_CURSOR] = self._steps_written = written + 1
        words[_STEP] = self._step = self._step + 1
        words[_PROGRESS] = start_ns + wall_ns
        ring.COUNTERS.pack_into(self._map, ring.COUNTERS_OFFSET, *totals)
        self._known_steps += own_ns is not None
        words[_KNOWN] = self._known_steps
        words[_GUARD] = self._guard = guard + 2

    def close(self) -> None:
        """Unmap the file; the file itself stays for the collector."""
        self._words.release()
        self._doubles.release()
        self._map.close()
