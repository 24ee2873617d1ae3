"""What other tenants of a node do to the rings that the real collector reads."""

import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract import ring
from lockstep.collector.sources.ranks.rings import MAX_RINGS
from lockstep.collector.sources.ranks.source import RankRings
from lockstep.workloads.ring import Identity, RingWriter
from tests.attack.collector_program import Collector, running
from tests.collector.conftest import FakeClock, Machine, RingImage
from tests.collector.sources.ranks.test_hostile_rings import of_rank, spoil, values

pytestmark = pytest.mark.distributed

RUN = "gpt-1"
REAL = 8
DECOYS = 64
SPOILED = 1938
SCRAPES = 40
CPU_SECONDS = 6.0
CROWDED = 25.0
"""CPU of a collector among 20,000 files by that of one without."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users: takes root")


class Ranks:
    """Rings of one tenant, all written by this process, which lives."""

    def __init__(self, folder: Path, run: str, ranks: range, uid: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.writers = []
        for rank in ranks:
            who = Identity(
                run, "node-0", "", rank, 4096, 0, 0, 0, 0, 0, -1,
                start_wall_ns=time.time_ns(),
                wall_minus_monotonic_ns=time.time_ns() - time.monotonic_ns(),
            )  # fmt: skip
            path = folder / ring.file_name(rank)
            self.writers.append(RingWriter(path, who))
            if uid is not None:
                os.chown(path, uid, uid)

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


@pytest.fixture
def tenants(tmp_path) -> Iterator[Any]:
    made: list[Ranks] = []

    def tenant(folder: str, run: str, ranks: range, uid: int | None = None) -> Ranks:
        made.append(Ranks(tmp_path / "rings" / folder, run, ranks, uid))
        return made[-1]

    over = threading.Event()

    def beat() -> None:  # as each rank's helper thread does
        while not over.wait(0.5):
            for one in tuple(made):
                for writer in one.writers:
                    writer.heartbeat()

    (tmp_path / "rings").mkdir()
    thread = threading.Thread(target=beat)
    thread.start()
    yield tenant
    over.set()
    thread.join()
    for one in made:
        one.close()


@pytest.fixture
def collector(tmp_path, tenants) -> Iterator[Collector]:
    with running(tmp_path / "rings", "--fast-period", "0.3") as one:
        yield one


def up(page: dict[Any, float], run: str = RUN) -> set[int]:
    return {
        int(labels[1])
        for (name, labels), value in page.items()
        if name == m.RANK_UP.name and labels[0] == run and value
    }


def errors(page: dict[Any, float]) -> dict[str, float]:
    """Of the rings, by reason."""
    found = {}
    for (name, values_), value in page.items():
        if name == m.SOURCE_ERRORS.name:
            labels = dict(zip(m.SOURCE_ERRORS.labels, values_, strict=True))
            if labels["source"] == RankRings.name:
                found[labels["reason"]] = value
    return found


def test_living_decoys_of_another_pod_hide_nobody(collector, tenants):
    tenants("a-decoys", "decoy", range(DECOYS))
    collector.until(lambda page: len(up(page, "decoy")) == DECOYS)
    tenants("z-real", RUN, range(REAL))

    collector.until(lambda page: up(page) == set(range(REAL)))
    page = collector.page()
    assert MAX_RINGS - REAL == len(up(page, "decoy"))
    assert DECOYS + REAL - MAX_RINGS == page[m.RINGS.name, ("living_left_out",)]
    assert errors(page)["too_many"] > 0


@as_root
def test_living_decoys_of_another_user_hide_nobody(collector, tenants, tmp_path):
    (tmp_path / "rings").chmod(0o1777)
    tenants(".", "decoy", range(1000, 1000 + DECOYS), 2002)
    for number in range(DECOYS):
        tenants(f"a-{number}", "decoy", range(number, number + 1))
        os.chown(tmp_path / f"rings/a-{number}", 2002, 2002)
    tenants("z-real", RUN, range(REAL))
    os.chown(tmp_path / "rings/z-real", 2001, 2001)

    collector.until(lambda page: up(page) == set(range(REAL)))


def test_who_claims_a_rank_of_another_that_lives_is_refused_and_counted(collector, tenants):
    tenants("real", RUN, range(REAL))
    collector.until(lambda page: up(page) == set(range(REAL)))
    tenants("evil", RUN, range(REAL))  # started later, so it would have replaced them

    collector.until(lambda page: errors(page).get("conflict", 0) >= REAL)
    pages = [collector.page() for _ in range(5)]
    assert [set(range(REAL))] * 5 == [up(page) for page in pages]
    assert "is folder real's, which lives or lately did; folder evil claims it" in collector.log()


@pytest.mark.parametrize("name", ["decoy-{}", "rank-{}.ring"])
def test_ten_thousand_files_beside_them_hide_no_rank(collector, tenants, tmp_path, name):
    tenants(".", RUN, range(REAL))
    collector.until(lambda page: up(page) == set(range(REAL)))
    (tmp_path / "rings/crowded").mkdir()
    for number in range(5000, 10_000):
        (tmp_path / "rings" / name.format(number)).touch()
        (tmp_path / "rings/crowded" / name.format(number)).touch()
    collector.until(lambda page: errors(page).get("too_many_entries", 0) > 0)
    tenants("crowded", RUN, range(REAL, REAL + 2))

    collector.until(lambda page: up(page) == set(range(REAL + 2)))
    for _ in range(10):
        assert set(range(REAL + 2)) == up(collector.page())
        time.sleep(0.1)


@pytest.mark.timed
def test_twenty_thousand_rings_of_nobody_cost_little_of_a_core(tenants, tmp_path):
    """At a look a second; the collector beside it looks at the same names, few of them."""
    tenants("few", RUN, range(REAL))
    for number in range(20_000):
        (tmp_path / "rings" / f"rank-{number}.ring").touch()
    with (
        running(tmp_path / "rings", sources="rank_ring") as crowded,
        running(tmp_path / "rings/few", sources="rank_ring") as quiet,
    ):
        crowded.until(lambda page: errors(page).get("too_many_entries", 0) > 0)
        time.sleep(CPU_SECONDS)  # until as many are known as are remembered
        before = crowded.cpu(), quiet.cpu()
        time.sleep(CPU_SECONDS)
        spent = crowded.cpu() - before[0], quiet.cpu() - before[1]

    assert spent[0] <= CROWDED * (spent[1] + 0.02), spent


def test_files_that_are_no_rings_cost_that_file_only(collector, tenants, tmp_path):
    tenants(".", RUN, range(2))
    rings = tmp_path / "rings"
    (rings / "rank-10.ring").symlink_to("/dev/zero")
    (rings / "rank-11.ring").symlink_to("rank-0.ring")
    (rings / "rank-12.ring").symlink_to("/nowhere")
    (rings / "linked").symlink_to("/proc")
    os.mkfifo(rings / "rank-13.ring")
    (rings / "rank-14.ring").mkdir()
    with (rings / "rank-15.ring").open("wb") as sparse:
        sparse.truncate(1 << 40)
    (rings / "rank-16.ring").write_bytes((rings / "rank-0.ring").read_bytes())

    told = {"symlink", "not_regular", "size", "content"}
    collector.until(lambda page: told <= errors(page).keys() and up(page) == {0, 1})
    assert all(collector.scrape() is not None for _ in range(8))


def test_a_ring_that_is_cut_and_overwritten_while_it_is_read_costs_that_ring_only(
    collector, tenants, tmp_path
):
    tenants("good", RUN, range(2))
    tenants("bad", RUN, range(2, 3))
    path = tmp_path / "rings/bad/rank-2.ring"
    good = path.read_bytes()
    over = threading.Event()

    def vandal() -> None:
        dice = random.Random(4)
        while not over.is_set():
            with path.open("r+b") as file:
                os.ftruncate(file.fileno(), dice.randrange(len(good)))
                os.pwrite(file.fileno(), dice.randbytes(4096), 0)
            again = path.with_name(".again")
            again.write_bytes(good)
            again.replace(path)

    thread = threading.Thread(target=vandal)
    thread.start()
    try:
        collector.until(lambda page: len(errors(page)) > 0)
        pages = [collector.page() for _ in range(SCRAPES)]
    finally:
        over.set()
        thread.join()

    assert all({0, 1} <= up(page) <= {0, 1, 2} for page in pages)
    assert "Traceback" not in collector.log()


def test_1938_corrupted_rings_cost_one_error_each_and_no_number(monkeypatch):
    with tempfile.TemporaryDirectory() as folder:
        clock = FakeClock()
        monkeypatch.setattr(clock, "sleep", lambda _: None)  # ages are compared as well
        machine = Machine(Path(folder), clock)
        machine.process(100)
        machine.process(101)
        machine.ring(RingImage(rank=0).training(20))
        path = machine.ring(RingImage(rank=1, pid=101).training(20))
        good = path.read_bytes()
        whole = values(RankRings(machine.rings, machine.proc, clock).read())
        dice = random.Random(1938)
        refused = 0
        for turn in range(SPOILED):
            spoil(path, good, dice)
            reading = RankRings(machine.rings, machine.proc, clock).read()
            shown = values(reading)

            assert of_rank(whole, "0") == of_rank(shown, "0"), turn
            assert of_rank(shown, "1").items() <= of_rank(whole, "1").items(), turn
            assert len(reading.rejected) <= 1, turn
            refused += len(reading.rejected)

    assert refused > 0.8 * SPOILED


def test_the_doctor_tells_what_is_not_read(tenants, tmp_path):
    tenants("a-decoys", "decoy", range(DECOYS))
    tenants("z-real", RUN, range(REAL))
    command = [
        *(sys.executable, "-m", "lockstep.collector", "--check", "--sources", "rank_ring"),
        *("--lockstep-dir", str(tmp_path / "rings")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)

    assert "partly" in done.stdout
    assert f"{DECOYS + REAL} rings in" in done.stdout
    assert f"{DECOYS + REAL - MAX_RINGS} that are left out have a fresh heartbeat" in done.stdout
