"""Whose a ring is: what other tenants of a node can do to somebody's ranks, and what is told."""

import os
import time

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract import ring
from lockstep.collector.contract.metrics import RANK_GONE_SECONDS
from lockstep.collector.sampler.state import StateFile
from lockstep.collector.samples import ranks
from lockstep.collector.sources.ranks.rings import MAX_RINGS
from lockstep.collector.sources.ranks.source import RankRings

REAL = 8


@pytest.fixture
def rings(machine):
    return RankRings(machine.rings, machine.proc, machine.clock)


@pytest.fixture
def tenant(machine, image):
    """`tenant(folder, ranks, run)`: living ranks in a folder of their own."""

    def start(folder: str, ranks, run: str = "gpt-1", pid: int = 0, **more) -> None:
        for rank in ranks:
            number = pid or 1000 + rank
            machine.process(number)
            machine.ring(image(rank=rank, run=run, pid=number, world=4096, **more), folder)

    return start


def beat(machine) -> None:
    """A second later, with every heartbeat fresh again."""
    machine.clock.sleep(1)
    now = ring.HEARTBEAT.pack(round((machine.clock.now - 0.25) * 1e9))
    for path in machine.rings.rglob("rank-*.ring"):
        with path.open("r+b") as file:
            os.pwrite(file.fileno(), now, ring.HEARTBEAT_OFFSET)


def of_run(reading, run: str) -> list[int]:
    return [rank.key[1] for rank in reading.ranks if rank.key[0] == run and rank.up]


def reasons(reading) -> list[str]:
    return [one.reason for one in reading.rejected]


def test_a_hundred_living_decoys_of_one_pod_hide_no_rank_of_another(machine, rings, tenant):
    tenant("a-decoys", range(100), run="decoy")
    tenant("z-real", range(REAL))

    reading = rings.read()

    assert list(range(REAL)) == of_run(reading, "gpt-1")
    assert MAX_RINGS == len(reading.ranks)
    told = {s.labels[0]: s.value for s in ranks.collect_ranks(reading) if s.metric is m.RINGS}
    assert {"read": MAX_RINGS, "living_left_out": 100 + REAL - MAX_RINGS, "quiet_left_out": 0} == (
        told
    )
    assert ["too_many"] == reasons(reading)


def test_decoys_that_come_later_do_not_hide_who_was_there(machine, rings, tenant):
    tenant("real", range(MAX_RINGS))
    assert MAX_RINGS == len(of_run(rings.read(), "gpt-1"))
    tenant("real/../decoys", range(10), run="decoy")  # another pod, which has its share
    beat(machine)
    reading = rings.read()

    kept = of_run(reading, "gpt-1")
    assert 10 == len(of_run(reading, "decoy"))
    assert MAX_RINGS - 10 == len(kept)
    tenant("real", range(MAX_RINGS, MAX_RINGS + 40))  # of the same pod: those that came first stay
    beat(machine)

    assert kept == of_run(rings.read(), "gpt-1")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users, which takes root")
def test_where_anybody_may_make_folders_a_user_has_one_share_however_many_he_makes(
    machine, rings, tenant
):
    machine.rings.chmod(0o1777)
    for number in range(100):
        tenant(f"a-{number:03}", [number], run="decoy")
        os.chown(machine.rings / f"a-{number:03}", 2002, 2002)
    tenant("z-real", range(REAL))
    os.chown(machine.rings / "z-real", 2001, 2001)

    assert list(range(REAL)) == of_run(rings.read(), "gpt-1")


def test_a_rank_belongs_to_the_pod_that_had_it_first_while_that_lives(
    machine, rings, tenant, image
):
    tenant("pod-real", [3])
    assert [3] == of_run(rings.read(), "gpt-1")
    tenant("pod-evil", [3], pid=666, steps=999, start_wall_ns=1_900_000_000_000_000_000)
    reading = rings.read()

    assert ["conflict"] == reasons(reading)
    assert "rank 3 of run gpt-1 is folder pod-real's" in reading.rejected[0].message
    assert [12] == [rank.header.live.steps for rank in reading.ranks]

    machine.end_process(1003)
    beat_of_the_dead = image(rank=3, pid=1003, world=4096, heartbeat_ns=round(900e9))
    machine.ring(beat_of_the_dead, "pod-real")
    after = rings.read()

    assert [999] == [rank.header.live.steps for rank in after.ranks]  # a restart may come elsewhere
    assert [] == reasons(after)


def test_a_restart_of_the_same_owner_replaces_what_it_was_before(machine, rings, tenant):
    tenant("pod", [0])
    rings.read()
    tenant("pod", [0], pid=500, attempt=1, start_wall_ns=1_799_999_500_000_000_000)
    reading = rings.read()

    assert [1] == [rank.header.identity.attempt for rank in reading.ranks]
    assert [] == reasons(reading)


def test_the_last_word_of_a_rank_that_died_is_not_replaced_by_a_dead_decoy(
    machine, rings, tenant, image
):
    tenant("pod-real", [0])
    rings.read()
    machine.end_process(1000)
    gone = {"heartbeat_ns": round(990e9), "pid": 1000, "world": 4096}
    machine.ring(image(rank=0, **gone), "pod-real")
    machine.ring(image(rank=0, steps=1, start_wall_ns=1_900_000_000_000_000_000, **gone), "evil")

    (rank,) = rings.read().ranks

    assert (False, 12) == (rank.up, rank.header.live.steps)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users, which takes root")
def test_a_run_of_one_user_gets_no_rank_of_another(machine, rings, tenant):
    tenant(".", [0, 1])
    for rank in (0, 1):
        os.chown(machine.rings / ring.file_name(rank), 2001, 2001)
    rings.read()
    tenant(".", [7])
    os.chown(machine.rings / ring.file_name(7), 2002, 2002)
    reading = rings.read()

    assert [0, 1] == of_run(reading, "gpt-1")
    assert ["conflict"] == reasons(reading)


VICTIM, STRANGER = 2001, 2002


@pytest.fixture
def user_rank(machine, tenant):
    """`user_rank(user, rank)`: a living rank of that user, where every user may make folders."""
    machine.rings.chmod(0o1777)

    def start(user: int, rank: int, **more) -> None:
        tenant(f"of-{user}", [rank], pid=user, **more)
        os.chown(machine.rings / f"of-{user}", user, user)
        os.chown(machine.rings / f"of-{user}" / ring.file_name(rank), user, user)

    return start


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users, which takes root")
@pytest.mark.parametrize("new_collector", [False, True])
@pytest.mark.parametrize("rank", [0, 7])
def test_a_run_stays_its_users_while_its_dead_ranks_are_told_of(
    machine, rings, user_rank, restarted, rank, new_collector
):
    machine.host()
    user_rank(VICTIM, 0)
    rings.read()
    machine.end_process(VICTIM)
    (machine.rings / f"of-{VICTIM}" / ring.file_name(0)).unlink()
    user_rank(STRANGER, rank)
    for _ in range(2):
        machine.clock.sleep(RANK_GONE_SECONDS / 2 - 2)
        beat(machine)
        reading = (restarted(rings) if new_collector else rings).read()
        assert [] == of_run(reading, "gpt-1")
        assert ["conflict"] == reasons(reading)

    machine.clock.sleep(1)
    beat(machine)

    assert [rank] == of_run(rings.read(), "gpt-1")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users, which takes root")
def test_who_has_more_runs_than_are_remembered_makes_nobody_elses_forgotten(
    machine, rings, user_rank, monkeypatch
):
    monkeypatch.setattr("lockstep.collector.sources.ranks.owners.MAX_CLAIMS", 8)
    user_rank(VICTIM, 0)
    rings.read()
    machine.end_process(VICTIM)
    (machine.rings / f"of-{VICTIM}" / ring.file_name(0)).unlink()
    for number in range(20):
        user_rank(STRANGER, 0, run=f"crowd-{number}")
        beat(machine)
        assert [0] == of_run(rings.read(), f"crowd-{number}")
    user_rank(STRANGER, 0)
    beat(machine)
    reading = rings.read()

    assert [] == of_run(reading, "gpt-1")
    assert ["conflict"] == reasons(reading)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users, which takes root")
def test_a_user_starts_his_run_again_at_once(machine, rings, user_rank, tenant):
    user_rank(VICTIM, 0)
    rings.read()
    machine.end_process(VICTIM)
    (machine.rings / f"of-{VICTIM}" / ring.file_name(0)).unlink()
    tenant("again", [0], pid=3000)
    for path in (machine.rings / "again", machine.rings / "again" / ring.file_name(0)):
        os.chown(path, VICTIM, VICTIM)
    beat(machine)
    reading = rings.read()

    assert [0] == of_run(reading, "gpt-1")
    assert [] == reasons(reading)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users, which takes root")
def test_who_is_refused_a_run_keeps_no_rank_of_it(machine, rings, user_rank):
    user_rank(VICTIM, 0)
    rings.read()
    user_rank(STRANGER, 7)
    rings.read()
    user_rank(VICTIM, 7)
    beat(machine)

    assert [0, 7] == of_run(rings.read(), "gpt-1")


def test_a_memory_of_an_older_version_has_no_times_and_is_taken(machine, tenant, restarted):
    machine.host()
    tenant("pod-real", [3])
    before = restarted()
    before.read()
    tree = before.memory()
    del tree["lived"]
    after = restarted()
    after.recall(tree)

    assert before.memory()["holders"] == after.memory()["holders"]


@pytest.fixture
def restarted(machine):
    """A collector that has just started, with the memory of the one before if it has any."""

    def start(before: RankRings | None = None) -> RankRings:
        one = RankRings(machine.rings, machine.proc, machine.clock)
        if before is not None:
            state = StateFile(machine.proc.parent / "state", machine.proc)
            state.save({}, {before.name: before.memory()})
            one.recall(state.memories()[one.name])
        return one

    return start


EARLIER = {"pid": 666, "steps": 999, "start_wall_ns": 1_799_999_000_000_000_000 - 10**12}
"""What an impostor says of itself: it started before the rank that it claims to be."""


def test_after_a_restart_of_the_collector_a_rank_is_still_whose_it_was(
    machine, rings, tenant, restarted
):
    machine.host()
    tenant("pod-real", [3])
    rings.read()
    tenant("a-evil", [3], **EARLIER)
    tenant("pod-real", [3])  # so that its file is the newer one
    reading = restarted(rings).read()

    assert [12] == [rank.header.live.steps for rank in reading.ranks]
    assert ["conflict"] == reasons(reading)


def test_where_nothing_is_remembered_the_file_that_was_there_first_counts_not_what_it_says(
    tenant, restarted
):
    tenant("pod-real", [3])
    time.sleep(0.05)  # more than a tick of the kernel's clock
    tenant("a-evil", [3], **EARLIER)
    reading = restarted().read()

    assert [12] == [rank.header.live.steps for rank in reading.ranks]
    assert ["conflict"] == reasons(reading)


def test_after_a_restart_an_owner_is_found_again_among_more_files_than_are_looked_at(
    machine, rings, tenant, restarted
):
    machine.host()
    tenant("pod-real", [3])
    rings.read()
    (machine.rings / "pod-real" / "rank-3.ring").rename(machine.rings / "kept")
    for number in range(3000):
        (machine.rings / "pod-real" / f"dump-{number}").touch()
    (machine.rings / "kept").rename(machine.rings / "pod-real" / "rank-3.ring")
    tenant("a-evil", [3], **EARLIER)
    one = restarted(rings)
    for _ in range(4):
        reading = one.read()
        assert [12] == [rank.header.live.steps for rank in reading.ranks]


@pytest.mark.parametrize(
    "tree",
    [None, {}, [1], {"holders": []}, {"holders": [["a"]], "living": []},
     {"holders": [["a", "run", "3"]], "living": []}, {"holders": [["a", 3, 3]], "living": []},
     {"holders": [], "living": ["/etc/passwd"]}, {"holders": [], "living": [3]}],
)  # fmt: skip
def test_a_memory_of_owners_that_is_broken_is_refused(rings, tree):
    with pytest.raises(ValueError, match=r"holders|an owner"):
        rings.recall(tree)


def test_two_pods_of_one_run_have_their_own_ranks(rings, tenant):
    tenant("pod-a", range(4))
    tenant("pod-b", range(4, 8))
    reading = rings.read()

    assert list(range(8)) == of_run(reading, "gpt-1")
    assert [] == reasons(reading)


def test_above_all_entries_that_are_looked_at_at_once_no_living_rank_vanishes(
    machine, rings, tenant
):
    tenant(".", range(4))
    rings.read()
    for number in range(9000):
        (machine.rings / f"rank-{number}.ring.{number}").touch()
    for _ in range(8):
        beat(machine)
        reading = rings.read()
        assert list(range(4)) == of_run(reading, "gpt-1")
        assert "too_many_entries" in reasons(reading)


def test_a_rank_that_starts_among_too_many_entries_is_found_in_turn(machine, rings, tenant):
    for number in range(9000):
        (machine.rings / f"dump-{number}").touch()
    (machine.rings / "crowded").mkdir()
    for number in range(3000):
        (machine.rings / "crowded" / f"dump-{number}").touch()
    tenant(".", range(4))
    tenant("crowded", [9])
    found: set[int] = set()
    for _ in range(12):
        beat(machine)
        found = set(of_run(rings.read(), "gpt-1"))

    assert {0, 1, 2, 3, 9} == found


def test_what_was_found_in_turn_is_forgotten_once_it_is_gone(machine, rings, tenant):
    for number in range(5000):
        (machine.rings / f"dump-{number}").touch()
    tenant(".", [0])
    for _ in range(4):
        beat(machine)
        rings.read()
    machine.end_process(1000)
    (machine.rings / "rank-0.ring").unlink()
    machine.clock.sleep(1)
    assert [False] == [rank.up for rank in rings.read().ranks]
    machine.clock.sleep(RANK_GONE_SECONDS)

    assert () == rings.read().ranks
