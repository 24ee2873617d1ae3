import os
import struct
from pathlib import Path

import pytest

from lockstep.collector.contract import ring
from lockstep.collector.contract.metrics import RANK_GONE_SECONDS
from lockstep.collector.contract.words import OPS, RankState
from lockstep.collector.sources.ranks.rings import MAX_RINGS
from lockstep.collector.sources.ranks.source import RankRings, RingReading


@pytest.fixture
def rings(machine):
    return RankRings(machine.rings, machine.proc, machine.clock)


def reasons(reading: RingReading) -> list[str]:
    return [one.reason for one in reading.rejected]


def test_an_empty_node_has_no_ranks(rings):
    reading = rings.read()

    assert reading.ranks == ()
    assert reading.rejected == ()


def test_a_node_without_the_folder_has_no_source(machine, clock):
    assert not RankRings(machine.rings / "nowhere", machine.proc, clock).available()


def test_a_header_is_read_as_it_was_written(machine, rings, image):
    machine.process(100)
    machine.ring(image(rank=3, steps=9, open=(15, 1, 5)))

    (rank,) = rings.read().ranks

    who, live = rank.header.identity, rank.header.live
    assert (who.run, who.node, who.rank, who.world, who.gpu) == ("gpt-1", "node-0", 3, 4, 0)
    assert rank.up
    assert (live.steps, live.tokens, live.loss) == (9, 9 * 256, 2.5)
    assert (live.groups[1].name, live.groups[1].enqueued, live.groups[1].completed) == (
        "dp",
        24,
        23,
    )
    assert (live.open.op, live.open.group, live.open.since_ns) == (OPS[15], "dp", 5)


def test_rings_one_folder_down_are_found_and_no_deeper(machine, rings, image):
    machine.process(100)
    machine.ring(image(rank=0), "pod-a")
    machine.ring(image(rank=1), "pod-b")
    machine.ring(image(rank=2), "pod-b/deeper")

    assert [rank.key[1] for rank in rings.read().ranks] == [0, 1]


def test_of_two_rings_of_one_rank_the_one_started_last_counts(machine, rings, image):
    machine.process(200)
    machine.ring(image(pid=200, start_wall_ns=2_000_000_000, attempt=1), "pod-b")
    machine.ring(image(pid=100, start_wall_ns=1_000_000_000, heartbeat_ns=1), "pod-c")
    first = [rank.header.identity.attempt for rank in rings.read().ranks]
    machine.end_process(200)
    machine.ring(image(pid=200, start_wall_ns=2_000_000_000, attempt=1, heartbeat_ns=1), "pod-b")
    both_gone = [rank.header.identity.attempt for rank in rings.read().ranks]

    assert [1] == first == both_gone


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("magic", {"magic": b"NOTARING"}),
        ("version", {"version": ring.VERSION + 1}),
        ("content", {"world": 0}),
        ("content", {"run": ""}),
        ("content", {"run": 'a"b\nc'}),
        ("content", {"groups": ("dp", "dp")}),
        ("content", {"open": (999, 0, 1)}),
        ("content", {"open": (15, 7, 1)}),
        ("content", {"steps": -3, "step_ns": -1, "loss": 0.0}),
    ],
)
def test_a_hostile_header_costs_that_file_only(machine, rings, image, reason, change):
    machine.process(100)
    machine.ring(image(rank=0))
    bad = image(rank=1, **{key: value for key, value in change.items() if key != "steps"})
    data = bytearray(bad.bytes())
    if "steps" in change:
        ring.COUNTERS.pack_into(data, ring.COUNTERS_OFFSET, 1, -1, 0, 0, 0, 0, 0.0, 0.0, *[0] * 8)
    (machine.rings / "rank-1.ring").write_bytes(data)

    reading = rings.read()

    assert [rank.key[1] for rank in reading.ranks] == [0]
    assert reasons(reading) == [reason]


def _truncated(path: Path, good: bytes) -> None:
    path.write_bytes(good[:5000])


def _noise(path: Path, good: bytes) -> None:
    path.write_bytes(os.urandom(len(good)))


def _link(path: Path, good: bytes) -> None:
    path.symlink_to("/etc/hostname")


def _folder(path: Path, good: bytes) -> None:
    path.mkdir()


def _fifo(path: Path, good: bytes) -> None:
    os.mkfifo(path)


def _foreign_name(path: Path, good: bytes) -> None:
    path.write_bytes(good)  # says that it is rank 0


def _not_utf8(path: Path, good: bytes) -> None:
    path.write_bytes(good[:16] + b"\xff\xfe" + good[18:])


@pytest.mark.parametrize(
    ("reason", "make"),
    [
        ("size", _truncated),
        ("magic", _noise),
        ("symlink", _link),
        ("not_regular", _folder),
        ("not_regular", _fifo),
        ("content", _foreign_name),
        ("encoding", _not_utf8),
    ],
)
def test_a_hostile_file_costs_that_file_only(machine, rings, image, reason, make):
    machine.process(100)
    good = machine.ring(image(rank=0)).read_bytes()
    make(machine.rings / "rank-1.ring", good)

    reading = rings.read()

    assert [rank.key[1] for rank in reading.ranks] == [0]
    assert reasons(reading) == [reason]


def test_a_folder_of_many_rings_is_capped(machine, rings, image):
    machine.process(100)
    for rank in range(MAX_RINGS + 3):
        machine.ring(image(rank=rank, world=1000))

    reading = rings.read()

    assert len(reading.ranks) == MAX_RINGS
    assert reasons(reading) == ["too_many"]


def test_rings_of_killed_pods_do_not_push_out_living_ranks(machine, rings, image):
    machine.process(100)
    for pod in range(100):
        dead = image(rank=0, run=f"old-{pod}", pid=9000, heartbeat_ns=round((900 + pod / 10) * 1e9))
        machine.ring(dead, f"pod-{pod:03}")
    machine.ring(image(rank=0), "pod-zy")
    machine.ring(image(rank=1), "pod-zz")

    reading = rings.read()

    assert [0, 1] == [rank.key[1] for rank in reading.ranks if rank.up]
    assert ["too_many"] == reasons(reading)


def test_a_guard_stuck_odd_leaves_identity_and_heartbeat_but_no_counter(machine, rings, image):
    machine.process(100)
    machine.ring(image(guard=3))

    reading = rings.read()

    assert reading.ranks[0].up
    assert reading.ranks[0].header.live is None
    assert reasons(reading) == ["guard"]


def test_a_guard_that_becomes_even_while_waiting_is_read(machine, image):
    machine.process(100)
    path = machine.ring(image(guard=3))

    class Writer(type(machine.clock)):
        def sleep(self, seconds: float) -> None:
            with path.open("r+b") as file:
                file.seek(ring.GUARD_OFFSET)
                file.write(struct.pack("<Q", 4))

    reading = RankRings(machine.rings, machine.proc, Writer()).read()

    assert reading.ranks[0].header.live is not None
    assert reading.rejected == ()


@pytest.mark.parametrize("state", ["Z", "X"])
def test_a_zombie_is_gone(machine, rings, image, state):
    machine.process(100, state, name="a) R (b")
    machine.ring(image())

    assert [rank.up for rank in rings.read().ranks] == [False]


def test_a_stopped_process_is_not_gone(machine, rings, image):
    machine.process(100, "T")
    machine.ring(image())

    assert [rank.up for rank in rings.read().ranks] == [True]


def test_a_gone_rank_is_kept_for_ten_minutes_though_its_ring_is_deleted(machine, rings, image):
    machine.process(100)
    path = machine.ring(image())
    rings.read()
    path.unlink()
    machine.end_process(100)

    machine.clock.sleep(1)
    first = rings.read().ranks
    machine.clock.sleep(RANK_GONE_SECONDS - 1)
    last = rings.read().ranks
    machine.clock.sleep(2)

    assert [rank.up for rank in first] == [rank.up for rank in last] == [False]
    assert first[0].header.live.groups[1].completed == 23
    assert rings.read().ranks == ()


def test_a_rank_that_removes_its_ring_at_its_end_has_finished(machine, rings, image):
    machine.process(100)
    path = machine.ring(image(state="running"))
    for _ in range(3):
        assert [RankState.RUNNING] == [rank.header.state for rank in rings.read().ranks]
    # All of it between two readings.
    path.write_bytes(image(state="finished").bytes())
    path.unlink()
    machine.end_process(100)

    for _ in range(3):
        (rank,) = rings.read().ranks
        assert (False, RankState.FINISHED) == (rank.up, rank.header.state)
        machine.clock.sleep(1)


def test_a_ring_that_is_another_when_its_rank_ends_says_nothing_of_it(machine, rings, image):
    machine.process(100)
    path = machine.ring(image(state="running"))
    rings.read()
    path.write_bytes(image(state="finished", rank=1).bytes())
    path.unlink()
    machine.end_process(100)

    assert [RankState.RUNNING] == [rank.header.state for rank in rings.read().ranks]


def test_rings_of_ranks_that_are_gone_are_not_kept_open(machine, rings, image):
    def kept() -> int:
        folder = Path("/proc/self/fd")
        return sum(os.path.realpath(one) == str(path.resolve()) for one in folder.iterdir())

    machine.process(100)
    path = machine.ring(image())
    rings.read()
    rings.read()
    assert 1 == kept()

    machine.end_process(100)
    rings.read()
    assert 0 == kept()


def test_a_ring_that_vanishes_under_a_living_rank_leaves_no_stale_value(machine, rings, image):
    machine.process(100)
    path = machine.ring(image())
    rings.read()
    path.unlink()

    assert rings.read().ranks == ()


@pytest.mark.parametrize("word", ["stopped", "peer_lost", "failed", "finished"])
def test_who_has_said_how_it_ends_and_has_no_ring_any_more_is_gone_at_once(
    machine, rings, image, word
):
    machine.process(100)  # it lives on for a moment, and its heartbeat is fresh
    path = machine.ring(image(state="running"))
    rings.read()
    path.write_bytes(image(state=word).bytes())
    path.unlink()

    for _ in range(2):
        assert [(False, word)] == [(rank.up, rank.header.state) for rank in rings.read().ranks]
        machine.clock.sleep(1)


def test_a_rank_found_long_dead_is_not_news(machine, rings, image):
    machine.ring(image(heartbeat_ns=round(100e9)))

    assert rings.read().ranks == ()
    assert rings.read().ranks == ()


def test_a_rank_killed_inside_a_record_keeps_the_sequences_read_before(machine, rings, image):
    machine.process(100)
    machine.ring(image(completed=20))
    rings.read()
    machine.ring(image(completed=21, guard=5))
    machine.end_process(100)

    (rank,) = rings.read().ranks

    assert rank.header.live.groups[0].completed == 20
