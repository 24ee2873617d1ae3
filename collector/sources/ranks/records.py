"""The operation and step records of one ring file, whole ones only."""

import os
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

from lockstep.collector.clock import Clock
from lockstep.collector.contract import ring
from lockstep.collector.contract.words import OPS
from lockstep.collector.files.opening import opened
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.ranks.header import Header, check_size, read_cursors, read_header

_WHOLE_GUARD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Records:
    """What a ring still holds of a range of steps, oldest first.

    Attributes:
        first_step_held: Oldest step of which nothing was overwritten; None = no record yet.
        truncated: Something of the steps asked for was overwritten.
    """

    header: Header
    steps: tuple[ring.StepRecord, ...]
    ops: tuple[ring.OpRecord, ...]
    first_step_held: int | None
    truncated: bool


def read_records(path: Path, from_step: int, to_step: int | None, clock: Clock) -> Records:
    """Records of the steps from `from_step` (inclusive) to `to_step` (exclusive, None = open).

    Operations of a step that has not ended are among them, its step record is not. A step of
    which some operations were overwritten is left out altogether.

    Raises:
        SourceError: The file is missing, not a ring, or holds a record no writer of ours makes.
    """
    with opened(path) as descriptor:
        check_size(descriptor)
        header = read_header(descriptor, clock)
        ops_before, steps_before = read_cursors(descriptor)
        op_slots = os.pread(descriptor, ring.OP_CAPACITY * ring.OP_RECORD.size, ring.OPS_OFFSET)
        step_slots = os.pread(
            descriptor, ring.STEP_CAPACITY * ring.STEP_RECORD.size, ring.STEPS_OFFSET
        )
        ops_after, steps_after = read_cursors(descriptor)
    ops = SlotCopy(ring.OP_RECORD, 3, op_slots, ops_before, ops_after)
    layout = ring.STEP_RECORDS[header.version]
    short = ring.STEP_WORD if layout is ring.STEP_RECORD else _WHOLE_GUARD
    steps = SlotCopy(layout, 0, step_slots, steps_before, steps_after, short)
    lost = ops.lost or steps.lost
    held = _first_step_held(ops, steps)
    first = max(from_step, held or 0)
    return Records(
        header,
        tuple(_step(record, header.version) for record in steps.window(first, to_step)),
        tuple(_op(record, header) for record in ops.window(first, to_step)),
        held,
        lost and held is not None and from_step < held,
    )


@dataclass(frozen=True, slots=True)
class SlotCopy:
    """A copy of one ring's slots, taken while the writer went on.

    Record n lies in slot n % capacity and carries the guard n + 1, its last field. It is whole if
    it was finished before the copy began (n < before) and its slot was not taken again by the end
    (n > after - capacity).

    Attributes:
        step_field: Index of the record's step; steps never fall from one record to the next.
        before: Cursor (records written) before the copy.
        after: Cursor after it.
        guard_bits: Those of the guard that a record holds.
    """

    layout: Struct
    step_field: int
    slots: bytes
    before: int
    after: int
    guard_bits: int = _WHOLE_GUARD

    @property
    def capacity(self) -> int:
        """Number of slots."""
        return len(self.slots) // self.layout.size

    @property
    def numbers(self) -> range:
        """Numbers of the whole records, oldest first."""
        # The cursors of a hostile file may lie any distance apart.
        return range(
            max(0, self.after - self.capacity + 1, self.before - self.capacity), self.before
        )

    @property
    def lost(self) -> bool:
        """Whether records were overwritten."""
        return self.numbers.start > 0

    def oldest_step(self) -> int | None:
        """Step of the oldest whole record; None = there is none."""
        whole = (number for number in self.numbers if self._is_whole(number))
        oldest = next(whole, None)
        return None if oldest is None else self._step(oldest)

    def window(self, from_step: int, to_step: int | None) -> list[tuple[Any, ...]]:
        """Whole records of the steps in [from_step, to_step), unpacked, oldest first."""
        numbers = self.numbers
        start = bisect_left(numbers, from_step, key=self._step)
        stop = len(numbers) if to_step is None else bisect_left(numbers, to_step, key=self._step)
        records = ((number, self._record(number)) for number in numbers[start:stop])
        # The search leads astray where the slots hold noise: what it found is looked at again.
        return [
            record
            for number, record in records
            if record[-1] == (number + 1) & self.guard_bits
            and from_step <= record[self.step_field]
            and (to_step is None or record[self.step_field] < to_step)
        ]

    def _is_whole(self, number: int) -> bool:
        return bool(self._record(number)[-1] == (number + 1) & self.guard_bits)

    def _step(self, number: int) -> int:
        step: int = self._record(number)[self.step_field]
        return step

    def _record(self, number: int) -> tuple[Any, ...]:
        return self.layout.unpack_from(self.slots, number % self.capacity * self.layout.size)


def _first_step_held(ops: SlotCopy, steps: SlotCopy) -> int | None:
    oldest_op, oldest_step = ops.oldest_step(), steps.oldest_step()
    if oldest_op is not None and ops.lost:
        oldest_op += 1  # what is left of its step may be the end of it
    floors = [floor for floor in (oldest_op, oldest_step) if floor is not None]
    return (max if ops.lost or steps.lost else min)(floors, default=None)


def _op(record: tuple[Any, ...], header: Header) -> ring.OpRecord:
    op, group, flags, step, sequence, tag, _reserved, size, enqueue_ns, complete_ns, _ = record
    groups, tags = header.group_names, header.tags
    local = group == ring.LOCAL_GROUP
    if (
        not 0 < op < len(OPS)
        or not (local or (group < len(groups) and groups[group]))
        or complete_ns < enqueue_ns
        or size < 0
    ):
        raise SourceError("content", f"operation record {record} of step {step} makes no sense")
    # A tag entered after the header was read has no name yet.
    name = tags[tag] if tag < len(tags) else ""
    return ring.OpRecord(
        OPS[op], "" if local else groups[group], flags, step, sequence, name, size, enqueue_ns,
        complete_ns,
    )  # fmt: skip


def _step(slot: tuple[Any, ...], version: int) -> ring.StepRecord:
    record = ring.step_record(slot, version)
    wait_ns = 0 if version == 1 else record.wait_ns or 0  # version 1 does not hold it
    times = (record.wall_ns, record.cpu_ns, record.own_ns or 0, wait_ns)
    if min(record.step, *times, *record.phase_ns) < 0:
        raise SourceError("content", f"step record {record.step} holds a time below zero")
    return record
