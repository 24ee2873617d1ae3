import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import OPS
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.ranks.records import SlotCopy, read_records

CAPACITY = 8


def test_steps_and_operations_of_the_window_come_back(machine, image, clock):
    path = machine.ring(image().training(10))

    records = read_records(path, 3, 5, clock)

    assert [step.step for step in records.steps] == [3, 4]
    assert [op.op for op in records.ops[:3]] == [
        "forward-compute",
        "backward-compute",
        "dp-all-reduce",
    ]
    assert {op.step for op in records.ops} == {3, 4}
    assert (records.ops[2].group, records.ops[2].tag, records.ops[2].sequence) == (
        "dp",
        "grads.0",
        4,
    )
    assert (records.ops[0].group, records.ops[0].tag) == ("", "")
    assert (records.first_step_held, records.truncated) == (0, False)


def test_a_ring_without_records_holds_no_step(machine, image, clock):
    records = read_records(machine.ring(image()), 0, None, clock)

    assert (records.steps, records.ops, records.first_step_held, records.truncated) == (
        (),
        (),
        None,
        False,
    )


def test_operations_of_the_unfinished_step_are_given(machine, image, clock):
    one = image().training(2)
    one.op("data-load", 2, 10, 20)

    records = read_records(machine.ring(one), 0, None, clock)

    assert [step.step for step in records.steps] == [0, 1]
    assert [op.op for op in records.ops if op.step == 2] == ["data-load"]


def test_an_overwritten_step_is_left_out_whole_and_said(machine, image, clock):
    steps = ring.OP_CAPACITY // 3 + 100

    records = read_records(machine.ring(image().training(steps)), 0, None, clock)

    held = records.first_step_held
    assert records.truncated
    assert records.ops[0].step == held
    assert len(records.ops) == 3 * (steps - held)
    assert len(records.steps) == min(steps - held, ring.STEP_CAPACITY - 1)


def test_asking_only_for_what_is_held_is_not_truncated(machine, image, clock):
    path = machine.ring(image().training(ring.STEP_CAPACITY + 500))

    records = read_records(path, ring.STEP_CAPACITY + 400, None, clock)

    assert not records.truncated
    assert len(records.steps) == 100


def test_a_resumed_run_has_lost_nothing(machine, image, clock):
    records = read_records(machine.ring(image().training(3, first=500)), 0, None, clock)

    assert (records.first_step_held, records.truncated) == (500, False)


@pytest.mark.parametrize(
    "change", [{"group": 7}, {"size": -1}, {"start": 20, "end": 10}, {"op": "none"}]
)
def test_a_record_that_no_writer_makes_is_refused(machine, image, clock, change):
    one = image()
    fields = {"op": "optimizer", "step": 0, "start": 10, "end": 20} | change
    one.op(**fields)

    with pytest.raises(SourceError) as caught:
        read_records(machine.ring(one), 0, None, clock)

    assert caught.value.reason == "content"


@settings(deadline=None)
@given(
    written=st.integers(0, 40),
    during=st.integers(0, 20),
    cut=st.integers(0, CAPACITY),
    torn=st.integers(0, ring.OP_RECORD.size),
)
def test_only_whole_records_are_accepted_whenever_the_reader_looks(written, during, cut, torn):
    """The writer adds `during` records, and tears one more, while the slots are being copied."""
    slots = bytearray(CAPACITY * ring.OP_RECORD.size)

    def record(number: int) -> bytes:
        return ring.OP_RECORD.pack(
            OPS.index("optimizer"), 1, 0, number, number, 0, 0, number, number, number, number + 1
        )

    def write(number: int, size: int = ring.OP_RECORD.size) -> None:
        start = number % CAPACITY * ring.OP_RECORD.size
        slots[start : start + size] = record(number)[:size]

    for number in range(written):
        write(number)
    early = bytes(slots[: cut * ring.OP_RECORD.size])
    for number in range(written, written + during):
        write(number)
    write(written + during, torn)
    copy = early + bytes(slots[cut * ring.OP_RECORD.size :])

    found = SlotCopy(ring.OP_RECORD, 3, copy, written, written + during).window(0, None)

    numbers = [one[-1] - 1 for one in found]
    assert numbers == list(range(max(0, written + during - CAPACITY + 1), written))
    assert [ring.OP_RECORD.pack(*one) for one in found] == [record(number) for number in numbers]


@settings(deadline=None)
@given(
    slots=st.binary(min_size=2 * ring.OP_RECORD.size, max_size=CAPACITY * ring.OP_RECORD.size),
    before=st.integers(0, 2**64 - 1),
    after=st.integers(0, 2**64 - 1),
    first=st.integers(0, 2**32),
)
def test_noise_never_raises_and_never_gives_more_than_the_ring(slots, before, after, first):
    copy = SlotCopy(ring.OP_RECORD, 3, slots, before, after)

    assert len(copy.window(first, None)) <= CAPACITY
    assert copy.oldest_step() is None or copy.oldest_step() >= 0
