"""The time line of a CUDA stream, with a stream and events of our own: no GPU is needed."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import GROUPS, OPS, PHASES, Phase
from lockstep.workloads.measure.cuda import (
    ANCHOR_NS,
    Anchor,
    StreamComm,
    StreamRecorder,
    Timeline,
    ToldClock,
)
from lockstep.workloads.ring import Identity, RingWriter

Forked = Callable[[int, Callable[[int], Any]], list[Any]]
MILLISECOND = 1_000_000
WHO = Identity(
    "run", "node-0", "", 0, 1, 0, 0, 0, 0, 0, 0, start_wall_ns=0, wall_minus_monotonic_ns=0
)


class Stream:
    """A device: the host gives it work, and it is done with it when a test says so."""

    def __init__(self) -> None:
        self.given_ns = 0  # when the device will be done with all that it was given
        self.now_ns = 0

    def work(self, milliseconds: float) -> None:
        self.given_ns = max(self.given_ns, self.now_ns) + round(milliseconds * MILLISECOND)


class FakeEvent:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.at_ns = -1

    def record(self) -> None:
        self.at_ns = max(self.stream.given_ns, self.stream.now_ns)

    def query(self) -> bool:
        return self.at_ns <= self.stream.now_ns

    def elapsed_time(self, end_event: "FakeEvent") -> float:
        assert self.query()
        assert end_event.query()
        return (end_event.at_ns - self.at_ns) / MILLISECOND


def anchored(stream: Stream) -> Anchor:
    event = FakeEvent(stream)
    event.at_ns = stream.now_ns
    return Anchor(event, 1_000_000_000 + stream.now_ns)


class Rank:
    """A rank on a fake device."""

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self.stream = Stream()
        self.timeline = Timeline(
            lambda: FakeEvent(self.stream), lambda: anchored(self.stream),
            lambda: 1_000_000_000 + self.stream.now_ns,
        )  # fmt: skip
        clock = ToldClock()
        self.writer = RingWriter(folder / ring.file_name(rank), WHO, now=clock)
        self.recorder = StreamRecorder(self.writer, self.timeline, clock)

    def passes(self, milliseconds: float) -> None:
        self.stream.now_ns += round(milliseconds * MILLISECOND)
        self.timeline.poll()
        self.timeline.drain()

    def page(self) -> bytes:
        return self.writer.path.read_bytes()

    def operations(self) -> list[tuple[Any, ...]]:
        cursor = ring.LIVE.unpack_from(self.page(), ring.LIVE_OFFSET)[0]
        raw = self.page()[ring.OPS_OFFSET :][: cursor * ring.OP_RECORD.size]
        return list(ring.OP_RECORD.iter_unpack(raw))

    def steps(self) -> list[ring.StepRecord]:
        cursor = ring.LIVE.unpack_from(self.page(), ring.LIVE_OFFSET)[1]
        raw = self.page()[ring.STEPS_OFFSET :][: cursor * ring.STEP_RECORD.size]
        return list(map(ring.step_record, ring.STEP_RECORD.iter_unpack(raw)))


@pytest.fixture
def rank(tmp_path: Path) -> Rank:
    return Rank(tmp_path)


def times(rank: Rank) -> tuple[int, int | None, int | None]:
    """Wall, own and waiting nanoseconds of the first step."""
    step = rank.steps()[0]
    return step.wall_ns, step.own_ns, step.wait_ns


def one_step(rank: Rank, loss: Any = 2.5) -> None:
    """8 ms of forward on the device, for which the host does not wait."""
    rank.recorder.start_step()
    with rank.recorder.phase(Phase.FORWARD):
        rank.stream.work(8)
    rank.recorder.end_step(samples=1, tokens=2, flops=3.0, loss=loss)


def test_nothing_is_written_before_the_device_has_passed_it(rank: Rank) -> None:
    one_step(rank)
    rank.passes(7.9)
    before = rank.operations(), rank.steps()
    rank.passes(0.1)

    assert ([], []) == before
    assert ["forward-compute"] == [OPS[op[0]] for op in rank.operations()]
    assert 1 == len(rank.steps())


def test_times_are_the_device_s_and_not_the_host_s(rank: Rank) -> None:
    one_step(rank)
    one_step(rank)
    rank.passes(16)
    starts = [op[8] for op in rank.operations()]
    walls = [step.wall_ns for step in rank.steps()]

    assert [1_000_000_000, 1_008_000_000] == starts
    assert [8 * MILLISECOND] * 2 == walls
    forward = PHASES.index(Phase.FORWARD)
    assert [8 * MILLISECOND] * 2 == [step.phase_ns[forward] for step in rank.steps()]
    assert [0, 1] == [op[3] for op in rank.operations()]


def test_a_loss_is_read_when_its_own_step_is_over(rank: Rank) -> None:
    """As a copy into pinned memory that arrives behind the step."""
    value = torch.zeros(())
    one_step(rank, loss=value)
    value.fill_(1.75)
    rank.passes(8)

    assert 1.75 == rank.steps()[0].loss


def test_the_host_is_at_most_one_step_ahead(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        rank.stream.now_ns += MILLISECOND
        rank.timeline.poll()

    monkeypatch.setattr("lockstep.workloads.measure.cuda.sleep", sleep)
    one_step(rank)
    one_step(rank)
    none_yet = len(waits)
    one_step(rank)

    assert 0 == none_yet
    assert 8 == len(waits)
    rank.recorder.flush()
    assert 3 == len(rank.steps())


def test_what_is_to_be_told_after_a_step_sees_that_step(rank: Rank) -> None:
    told: list[float] = []
    one_step(rank)
    rank.recorder.after(lambda: told.append(rank.recorder.wall_seconds))
    one_step(rank)
    before = list(told)
    rank.passes(8)

    assert [] == before
    assert [0.008] == told


def test_a_new_anchor_does_not_move_what_was_marked_before(rank: Rank) -> None:
    one_step(rank)
    rank.stream.now_ns += 2 * ANCHOR_NS
    rank.timeline.poll()
    rank.timeline.drain()
    one_step(rank)
    rank.passes(8)

    starts = [step.start_ns for step in rank.steps()]
    assert [1_000_000_000, 1_000_000_000 + 2 * ANCHOR_NS] == starts


def test_a_device_that_fails_is_noticed_by_the_training_thread(rank: Rank) -> None:
    one_step(rank)

    def broken() -> bool:
        raise RuntimeError("CUDA error: device-side assert triggered")

    rank.timeline._coming[1][1][0].event.query = broken
    rank.timeline.poll()
    with pytest.raises(RuntimeError, match="the device failed: CUDA error"):
        rank.timeline.drain()


def joined(rank: int, folder: Path) -> tuple[Rank, StreamComm]:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=1
    )
    world = dist.group.WORLD
    assert world is not None
    one = Rank(folder, rank)
    return one, StreamComm(one.recorder, {"world": world, "dp": world})


@pytest.mark.distributed
def test_a_collective_lasts_from_the_stream_s_arrival_to_its_end(
    forked: Forked, tmp_path: Path
) -> None:
    """2 ms of own work, 3 ms of waiting: own time is what is left of the step."""

    def work(_: int) -> Any:
        one, comm = joined(0, tmp_path)
        place = comm.collective("dp-all-reduce", "dp", "grads.0")
        one.recorder.start_step()
        one.stream.work(2)

        def call(*_: Any) -> None:
            one.stream.work(3)

        place._timed(torch.ones(4), call)
        one.recorder.end_step(samples=1, tokens=1, flops=1.0, loss=math.nan)
        one.passes(2.5)
        inside = ring.LIVE.unpack_from(one.page(), ring.LIVE_OFFSET)[4:9]
        one.passes(2.5)
        offset = ring.GROUP_COUNTERS_OFFSET + GROUPS.index("dp") * ring.GROUP_COUNTERS.size
        group = ring.GROUP_COUNTERS.unpack_from(one.page(), offset)
        return inside, one.operations(), times(one), group

    ((op, _, _, sequence, since), ops, (wall, own, wait), group) = forked(1, work)[0]

    assert (OPS.index("dp-all-reduce"), 1, 1_002_000_000) == (op, sequence, since)
    assert [[1_002_000_000, 1_005_000_000]] == [record[8:10] for record in ops]
    assert (5 * MILLISECOND, 2 * MILLISECOND) == (wall, own)
    assert 3 * MILLISECOND == wait
    assert [3 * MILLISECOND, 1, 1, 1] == group


@pytest.mark.distributed
def test_only_the_wait_for_an_overlapped_operation_is_waiting(
    forked: Forked, tmp_path: Path
) -> None:
    def work(_: int) -> Any:
        one, comm = joined(0, tmp_path)
        place = comm.collective("dp-all-reduce", "dp", "grads.0")
        one.recorder.start_step()
        pending = place.start_all_reduce(torch.ones(4))
        one.stream.work(4)  # computation beside it

        class Late:
            def wait(self) -> None:
                one.stream.work(1)

        pending.work = Late()
        pending.wait()
        one.recorder.end_step(samples=1, tokens=1, flops=1.0, loss=math.nan)
        one.passes(5)
        return one.operations(), times(one)

    (record,), (wall, own, wait) = forked(1, work)[0]
    flags = ring.FLAG_COMPLETION_IS_UPPER_BOUND | ring.FLAG_OVERLAPPED

    assert (flags, 1, 1_000_000_000, 1_005_000_000) == (record[2], record[4], *record[8:10])
    assert (5 * MILLISECOND, 4 * MILLISECOND) == (wall, own)
    assert MILLISECOND == wait


@pytest.mark.distributed
def test_what_was_waited_between_two_steps_is_of_neither(forked: Forked, tmp_path: Path) -> None:
    """As the exchange of clocks: the next step's own time is its whole time."""

    def work(_: int) -> Any:
        from time import sleep

        one, comm = joined(0, tmp_path)
        place = comm.collective("world-broadcast", "world", "clocks")
        place.run(torch.zeros(2), lambda: sleep(0.01))
        one_step(one)
        one.passes(8)
        return times(one)

    wall, own, wait = forked(1, work)[0]

    assert 8 * MILLISECOND == wall == own
    assert 0 == wait


@pytest.mark.distributed
def test_transfers_of_the_host_wait_for_an_idle_device(forked: Forked, tmp_path: Path) -> None:
    def work(_: int) -> Any:
        one, comm = joined(0, tmp_path)
        one_step(one)
        one.stream.now_ns += 8 * MILLISECOND
        one.timeline.poll()
        place = comm.collective("world-broadcast", "world", "clocks")
        seen: list[int] = []
        place.run(torch.zeros(2), lambda: seen.append(len(one.steps())))
        return seen, [OPS[op[0]] for op in one.operations()], [op[3] for op in one.operations()]

    assert [[1], ["forward-compute", "world-broadcast"], [0, 1]] == forked(1, work)[0]
