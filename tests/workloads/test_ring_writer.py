"""The ring file as its writer leaves it, read by the contract's structs alone."""

import math
import threading
from pathlib import Path
from time import monotonic, sleep

import pytest

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import PHASES, RANK_STATES, RankState
from lockstep.workloads.measure.heartbeat import Heartbeat
from lockstep.workloads.ring import GROUP_INDEX, OP_INDEX, Identity, RingWriter

WHO = Identity(
    run="gpt-1", node="node-3", uuid="SIM-x", rank=3, world=4, local_rank=0, attempt=0, dp=3,
    pp=0, tp=0, gpu=0, start_wall_ns=5, wall_minus_monotonic_ns=7,
)  # fmt: skip


@pytest.fixture
def writer(tmp_path: Path) -> RingWriter:
    return RingWriter(tmp_path / ring.file_name(3), WHO)


def end_step(writer: RingWriter, wall_ns: int = 100, loss: float = 2.5) -> None:
    writer.end_step(
        start_ns=10, wall_ns=wall_ns, cpu_ns=40, own_ns=60, wait_ns=wall_ns - 60,
        phase_ns=list(range(len(PHASES))), tags=1, samples=4, tokens=256, flops=1e6, loss=loss,
    )  # fmt: skip


def test_the_file_has_its_full_size_and_its_identity(writer: RingWriter) -> None:
    data = writer.path.read_bytes()
    identity = ring.IDENTITY.unpack_from(data)

    assert ring.FILE_BYTES == len(data)
    assert (ring.MAGIC, ring.VERSION) == identity[:2]
    assert (b"gpt-1", b"node-3", b"SIM-x") == tuple(text.rstrip(b"\0") for text in identity[3:6])
    assert (3, 4, 0, 0) == identity[6:10]


def test_no_temporary_file_stays(writer: RingWriter) -> None:
    assert [writer.path] == list(writer.path.parent.iterdir())


def test_a_value_of_the_program_is_its_last_one_and_a_ninth_name_has_no_room(writer) -> None:
    assert writer.value("reward", 1.0)
    assert writer.value("reward", 2.5)
    assert all(writer.value(f"own_{place}", 0.0) for place in range(7))
    assert not writer.value("ninth", 1.0)
    told = ring.Header(writer.path.read_bytes()[: ring.HEADER_BYTES])

    assert (b"reward", 2.5) == (told.values[0][0].rstrip(b"\0"), told.values[0][1])
    assert b"own_6" == told.values[7][0].rstrip(b"\0")
    assert 0 == told.guard % 2


def test_with_whom_a_rank_exchanges_data_is_behind_its_values_and_within_the_header(writer) -> None:
    groups = (ring.ExchangeGroup(7, 4096, 4, 0), ring.ExchangeGroup(9, 0, 2, 3))
    peers = (ring.ExchangePeer(1024, 2, 1),)
    none = ring.Header(writer.path.read_bytes()[: ring.HEADER_BYTES]).exchange
    told = ring.Exchange(12, 4, 0, groups, peers)
    writer.exchange(told)
    header = ring.Header(writer.path.read_bytes()[: ring.HEADER_BYTES])
    end = (
        ring.EXCHANGE_OFFSET
        + ring.EXCHANGE.size
        + ring.MAX_PARTNERS * (ring.EXCHANGE_GROUP.size + ring.EXCHANGE_PEER.size)
    )

    assert ring.Exchange(0, 0, 0, (), ()) == none
    assert told == header.exchange
    assert 0 == header.guard % 2
    assert ring.EXCHANGE_OFFSET % 8 == 0
    assert end <= ring.HEADER_BYTES


def test_values_lie_between_the_tags_and_the_records() -> None:
    assert ring.VALUES_OFFSET + ring.MAX_VALUES * ring.VALUE.size <= ring.HEADER_BYTES
    assert 0 == ring.VALUES_OFFSET % 8 == ring.VALUE.size % 8


def test_an_open_collective_shows_what_the_rank_waits_in(writer: RingWriter) -> None:
    since = writer.begin(OP_INDEX["dp-all-reduce"], GROUP_INDEX["dp"])
    data = writer.path.read_bytes()
    live = ring.LIVE.unpack_from(data, ring.LIVE_OFFSET)
    offset = ring.GROUP_COUNTERS_OFFSET + GROUP_INDEX["dp"] * ring.GROUP_COUNTERS.size

    assert (OP_INDEX["dp-all-reduce"], GROUP_INDEX["dp"], 0, 1, since) == live[4:9]
    assert (0, 0, 1, 0) == ring.GROUP_COUNTERS.unpack_from(data, offset)


def test_a_completed_collective_is_a_record_and_closes_the_open_one(writer: RingWriter) -> None:
    op, group = OP_INDEX["dp-all-reduce"], GROUP_INDEX["dp"]
    arrival = writer.begin(op, group)
    duration = writer.end(op, group, arrival, 1024, writer.tag("grads.0"))
    data = writer.path.read_bytes()
    record = ring.OP_RECORD.unpack_from(data, ring.OPS_OFFSET)

    assert (op, group, 0, 0, 1, 0, 0, 1024, arrival, arrival + duration, 1) == record
    assert 0 == ring.LIVE.unpack_from(data, ring.LIVE_OFFSET)[4]
    assert b"grads.0" == data[ring.TAG_NAMES_OFFSET :][:7]
    counters = ring.GROUP_COUNTERS.unpack_from(
        data, ring.GROUP_COUNTERS_OFFSET + group * ring.GROUP_COUNTERS.size
    )
    assert (duration, 1, 1, 1) == counters


def test_steps_add_up_and_the_guard_is_even(writer: RingWriter) -> None:
    end_step(writer)
    end_step(writer, wall_ns=50, loss=2.0)
    data = writer.path.read_bytes()
    totals = ring.COUNTERS.unpack_from(data, ring.COUNTERS_OFFSET)

    assert (2, 150, 120, 80, 8, 512, 2e6, 2.0) == totals[:8]
    assert tuple(2 * index for index in range(len(PHASES))) == totals[8:]
    assert 0 == ring.GUARD.unpack_from(data, ring.GUARD_OFFSET)[0] % 2


def test_own_time_and_waiting_are_stored_and_both_are_known_or_neither(writer: RingWriter) -> None:
    end_step(writer)
    writer.end_step(
        start_ns=110, wall_ns=100, cpu_ns=40, own_ns=None, wait_ns=None,
        phase_ns=[0] * len(PHASES), tags=2, samples=4, tokens=256, flops=1e6, loss=2.5,
    )  # fmt: skip
    slots = ring.STEP_RECORD.iter_unpack(writer.path.read_bytes()[ring.STEPS_OFFSET :])
    known, unknown = (ring.step_record(next(slots)) for _ in range(2))

    assert (0, 10, 100, 40, 60, 40) == (
        known.step, known.start_ns, known.wall_ns, known.cpu_ns, known.own_ns, known.wait_ns
    )  # fmt: skip
    assert (1, None, None, 2) == (unknown.step, unknown.own_ns, unknown.wait_ns, unknown.tags)


def test_a_resumed_run_counts_from_its_first_step(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "rank-0.ring", WHO, first_step=40)
    end_step(writer)
    data = writer.path.read_bytes()

    assert 41 == ring.COUNTERS.unpack_from(data, ring.COUNTERS_OFFSET)[0]
    assert 40 == ring.STEP_RECORD.unpack_from(data, ring.STEPS_OFFSET)[0]


def test_a_full_ring_overwrites_the_oldest(writer: RingWriter) -> None:
    for number in range(ring.OP_CAPACITY + 3):
        writer.local(OP_INDEX["data-load"], number, number + 1)
    data = writer.path.read_bytes()

    assert (
        ring.OP_CAPACITY + 3
        == ring.OP_RECORD.unpack_from(data, ring.OPS_OFFSET + 2 * ring.OP_RECORD.size)[-1]
    )
    assert 4 == ring.OP_RECORD.unpack_from(data, ring.OPS_OFFSET + 3 * ring.OP_RECORD.size)[-1]


def test_tags_beyond_the_table_are_recorded_without_a_name(writer: RingWriter) -> None:
    indices = [writer.tag(f"tag-{number}") for number in range(ring.MAX_TAGS + 1)]

    assert [*range(ring.MAX_TAGS), ring.NO_TAG] == indices
    assert 5 == writer.tag("tag-5")


def test_a_new_ring_has_no_loss_and_is_starting(writer: RingWriter) -> None:
    data = writer.path.read_bytes()

    assert math.isnan(ring.COUNTERS.unpack_from(data, ring.COUNTERS_OFFSET)[7])
    assert (RANK_STATES.index(RankState.STARTING),) == ring.STATE.unpack_from(
        data, ring.STATE_OFFSET
    )


def test_the_heart_beats_until_it_is_stopped(writer: RingWriter) -> None:
    beats: list[int] = []
    heart = Heartbeat(writer.heartbeat, lambda: beats.append(1), period=0.001)
    heart.start()
    deadline = monotonic() + 60
    while len(beats) < 3 and monotonic() < deadline:
        sleep(0.001)
    heart.stop()

    assert len(beats) >= 3
    assert not heart._thread.is_alive()


def test_a_renewed_clock_offset_leaves_the_rest_of_the_identity(writer: RingWriter) -> None:
    before = ring.IDENTITY.unpack_from(writer.path.read_bytes())
    writer.clock(-5_000_000_000, 41)
    data = writer.path.read_bytes()
    after = ring.IDENTITY.unpack_from(data)

    assert (-5_000_000_000, 41) == after[20:22]
    assert (*before[:20], *before[22:]) == (*after[:20], *after[22:])
    assert 0 == ring.GUARD.unpack_from(data, ring.GUARD_OFFSET)[0] % 2


def test_a_beat_that_cannot_write_is_told_once_and_the_others_go_on(
    capfd: pytest.CaptureFixture[str],
) -> None:
    enough = threading.Event()
    beats: list[int] = []

    def full() -> None:
        raise OSError("no space left")

    def other() -> None:
        beats.append(1)
        if len(beats) == 3:
            enough.set()

    heart = Heartbeat(full, other, period=0.001)
    heart.start()
    seen = enough.wait(10)
    heart.stop()

    assert seen
    assert "heartbeat: no space left\n" == capfd.readouterr().err
