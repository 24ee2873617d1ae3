"""Which rings are read where killed pods left more than may be read."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import ring
from lockstep.collector.registry import Node
from lockstep.collector.sources.ranks import selection as newest
from lockstep.collector.sources.ranks.processes import FRESH_SECONDS
from lockstep.collector.sources.ranks.rings import SCAN_SECONDS, LivingRanks, Rings
from lockstep.collector.sources.ranks.selection import LOOKS, NEW_LOOKS, Newest

COUNT = 8
NOW = 1000.0


def beat(path: Path, seconds: float) -> Path:
    """A ring file, sparse, of which only the magic and the heartbeat are written."""
    path.parent.mkdir(exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(descriptor, ring.MAGIC, 0)
    os.pwrite(descriptor, ring.HEARTBEAT.pack(round(seconds * 1e9)), ring.HEARTBEAT_OFFSET)
    os.truncate(descriptor, ring.FILE_BYTES)
    os.close(descriptor)
    return path


def of(choose: Newest, paths: Iterable[Path], count: int) -> list[Path]:
    return [Path(path) for path in choose.of([str(path) for path in paths], count)]


@pytest.fixture
def rings(machine):
    def make(*beats: float) -> list[Path]:
        return [
            beat(machine.rings / f"pod-{index:04}" / "rank-0.ring", seconds)
            for index, seconds in enumerate(beats)
        ]

    return make


@pytest.fixture
def opens(monkeypatch):
    """The files opened since it was last cleared."""
    files: list[Path] = []
    real = newest.opened

    def counted(path: Path):
        files.append(path)
        return real(path)

    monkeypatch.setattr(newest, "opened", counted)
    return files


def test_rings_that_are_not_too_many_are_not_opened_to_choose(rings, clock, opens):
    paths = rings(*[1.0] * COUNT)

    assert paths == of(Newest(clock), paths, COUNT)
    assert [] == opens


@given(
    ages=st.lists(st.one_of(st.floats(0, 2.9), st.floats(3.1, 900)), min_size=1, max_size=30),
    rounds=st.integers(1, 3),
)
@settings(max_examples=50, deadline=None)
def test_no_ring_that_is_passed_over_is_newer_than_one_that_is_read(ages, rounds):
    class Still:
        def monotonic(self) -> float:
            return NOW

    with tempfile.TemporaryDirectory() as folder:
        age = {beat(Path(folder) / f"rank-{n}.ring", NOW - one): one for n, one in enumerate(ages)}
        choose = Newest(Still())  # type: ignore[arg-type]
        for _ in range(rounds):  # what is remembered gives the same
            chosen = of(choose, age, COUNT)

        living = {path for path in age if age[path] < FRESH_SECONDS}
        read, passed = set(chosen), age.keys() - chosen
        assert min(COUNT, len(age)) == len(read) == len(chosen)
        assert living <= read or read <= living
        quiet = [age[path] for path in passed - living]
        assert max((age[path] for path in read - living), default=0) <= min(quiet, default=900)


def test_of_too_many_living_ranks_the_same_are_read_every_time(rings, clock):
    paths = rings(*[NOW] * (COUNT + 5))
    choose = Newest(clock)
    for second in range(5):
        for path in paths[second % 2 :: 2]:
            beat(path, clock.now)

        assert paths[:COUNT] == of(choose, paths, COUNT)
        clock.sleep(1)


def test_a_thousand_dead_rings_cost_a_bounded_number_of_looks(rings, clock, opens):
    paths = rings(*[1.0] * 1000, NOW, NOW)
    choose = Newest(clock)
    for _ in range(3):
        of(choose, paths, COUNT)
    opens.clear()

    assert paths[-2:] == of(choose, paths, COUNT)[-2:]
    assert LOOKS + 2 == len(opens)


def test_of_many_new_rings_some_are_looked_at_of_every_folder(machine, clock, opens):
    crowd = [machine.rings / "crowd" / f"rank-{number}.ring" for number in range(3 * NEW_LOOKS)]
    crowd[0].parent.mkdir()
    for path in crowd:
        path.touch()
    real = beat(machine.rings / "pod" / "rank-0.ring", NOW)
    choose = Newest(clock)

    assert real in of(choose, [*crowd, real], COUNT)
    assert NEW_LOOKS == len(opens)
    assert len(crowd) + 1 - COUNT == choose.quiet_left_out
    for _ in range(3):
        of(choose, [*crowd, real], COUNT)
    assert {*crowd, real} == set(opens)


def test_beyond_all_that_are_remembered_a_ring_is_found_in_turn(machine, clock, monkeypatch):
    monkeypatch.setattr(newest, "MAX_KNOWN", 60)
    monkeypatch.setattr(newest, "NEW_LOOKS", 20)
    names = [str(machine.rings / f"rank-{number}.ring") for number in range(300)]
    for name in names:
        Path(name).touch()
    last = str(beat(machine.rings / "rank-999.ring", NOW))
    choose = Newest(clock)
    parts = [names[:100], names[100:200], [*names[200:], last]]

    for number in range(300):  # one in five of a part: missed every time once in 10^9
        if last in choose.of(parts[number % 3], COUNT, whole=False):
            break
    else:
        pytest.fail("it was never looked at")
    assert all(last in choose.of(part, COUNT, whole=False) for part in parts)


def test_a_ring_that_is_new_is_read_in_the_same_scan(rings, clock):
    paths = rings(*[1.0] * 300, NOW)
    choose = Newest(clock)
    of(choose, paths[:-1], COUNT)

    assert paths[-1] in of(choose, paths, COUNT)


def test_a_rank_that_starts_anew_in_the_folder_of_a_dead_one_is_noticed_in_turn(rings, clock):
    paths = rings(*range(1, 1 + 3 * LOOKS))
    choose = Newest(clock)
    of(choose, paths, COUNT)
    beat(paths[0], NOW)  # the one that went first, so no luck brings it back

    found = [paths[0] in of(choose, paths, COUNT) for _ in range(4)]

    assert found[-1]


def test_a_frozen_rank_whose_process_lives_stays_before_those_that_died_later(rings, clock):
    paths = rings(10.0, *[900.0] * 20)
    choose = Newest(clock)
    choose.lived(map(str, paths[:1]))

    assert paths[0] in of(choose, paths, COUNT)

    choose.lived([])

    assert paths[0] not in of(choose, paths, COUNT)


def _of_another_boot(path: Path) -> None:
    beat(path, NOW + 500)


def _short(path: Path) -> None:
    os.truncate(path, 100)


def _foreign(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(b"NOTARING" + data[8:])


def _link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to(path.with_name("other"))


@pytest.mark.parametrize("spoil", [_of_another_boot, _short, _foreign, _link, Path.unlink])
def test_what_is_no_ring_of_now_comes_last(rings, clock, spoil):
    paths = rings(*[NOW] * (COUNT + 1))
    spoil(paths[0])

    assert paths[1:] == of(Newest(clock), paths, COUNT)


# Who asks for the living ranks, and how often the rings are read for it.


def test_those_who_ask_together_share_one_scan(machine, image, clock):
    machine.ring(image(rank=0, pid=100))
    machine.process(100)
    living = LivingRanks(Rings(machine.rings, machine.proc, clock))
    first = living()
    machine.ring(image(rank=1, pid=101))
    machine.process(101)

    assert living() is first
    assert [0] == [rank.header.identity.rank for rank in first]

    clock.sleep(SCAN_SECONDS)

    assert [0, 1] == sorted(rank.header.identity.rank for rank in living())


def test_a_rank_has_stepped_once_it_recorded_a_step_and_not_by_the_count_it_resumed_with(
    machine, image, clock
):
    machine.ring(image(rank=0, pid=100, steps=5000))
    machine.ring(image(rank=1, pid=101, steps=1).training(1))
    for pid in (100, 101):
        machine.process(pid)

    assert {("gpt-1", 1)} == Node(machine.config(), clock).stepped_ranks()
