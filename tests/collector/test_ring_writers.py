"""Which process writes a ring: also in a container, where a rank knows itself by another pid."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.sources.ranks.processes import MAX_SEARCHES, SEARCH_SECONDS, Writers
from lockstep.collector.sources.ranks.rings import LivingRanks, Rings
from lockstep.collector.sources.ranks.source import RankRings

POD, OTHER = (f"12345678-abcd-ef01-2345-6789abcdef0{n}" for n in (1, 2))
STALE = round(900e9)
"""A heartbeat a hundred seconds old."""


@pytest.fixture
def node(machine):
    """`node.process(pid, inside, pod, began)`; `node.up()` gives (up, pid) of the only rank."""
    source = RankRings(machine.rings, machine.proc, machine.clock)

    class Node:
        rings = machine

        def process(self, pid, inside=None, pod="", began=0.0, state="R"):
            machine.process(pid, state, cgroup=f"/kubepods-pod{pod.replace('-', '_')}.slice/x")
            stat = machine.proc / f"{pid}/stat"
            head, _, tail = stat.read_text().rpartition(")")
            words = tail.split()
            words[19] = str(round(began * 100))
            stat.write_text(f"{head}) {' '.join(words)}\n")
            names = f"{pid}" if inside is None else f"{pid}\t{inside}"
            machine.file(machine.proc / f"{pid}/status", f"Name:\tpython\nNSpid:\t{names}\nA:\t1\n")

        def up(self):
            (rank,) = source.read().ranks
            return rank.up, rank.pid

    return Node()


def test_a_rank_in_a_container_is_found_by_the_pid_it_knows_itself_by(machine, node, image):
    node.process(100)  # of the node, with the same number
    node.process(7777, inside=100, pod=POD)
    node.process(7778, inside=100, pod=OTHER)
    machine.ring(image(heartbeat_ns=STALE), POD)

    assert (True, 7777) == node.up()
    (machine.proc / "7777/status").unlink()
    machine.end_process(7777)
    assert (False, None) == node.up()


def test_a_process_of_the_node_with_the_pid_of_a_dead_rank_does_not_make_it_live(
    machine, node, image
):
    node.process(100)
    machine.ring(image(heartbeat_ns=STALE), POD)

    assert (False, None) == node.up()


def test_a_process_that_began_after_the_last_heartbeat_is_another_one(machine, node, image):
    node.process(100, began=950.0)
    machine.ring(image(heartbeat_ns=STALE))

    assert (False, None) == node.up()


def test_a_process_that_is_older_than_the_run_by_hours_is_another_one(machine, node, image):
    node.process(100, began=0.0)
    late = 1_799_999_000_000_000_000 + 9_000 * 10**9
    machine.clock.now = 10_000.0
    machine.ring(image(start_wall_ns=late, heartbeat_ns=round(9_900e9)))

    assert (False, None) == node.up()


def test_a_rank_forked_late_in_the_start_of_a_run_is_its_process(machine, node, image):
    node.process(100, began=30.0)
    machine.ring(image())

    assert (True, 100) == node.up()


def test_of_a_rank_that_is_not_visible_the_heartbeat_tells_and_nothing_else_is_read(
    machine, node, image
):
    machine.ring(image())
    living = LivingRanks(Rings(machine.rings, machine.proc, machine.clock))
    assert (True, None) == node.up()
    assert [None] == [rank.pid for rank in living()]
    machine.clock.sleep(3.0)

    assert (False, None) == node.up()
    assert () == living()


def test_a_stopped_rank_in_a_container_is_not_gone(machine, node, image):
    node.process(7777, inside=100, pod=POD, state="T")
    machine.ring(image(heartbeat_ns=STALE), POD)

    assert (True, 7777) == node.up()


def test_without_a_process_table_no_rank_is_said_to_live_or_to_be_gone(machine, image):
    machine.ring(image())
    reading = RankRings(machine.rings, machine.proc / "none", machine.clock).read()

    assert ((), ["io"]) == (reading.ranks, [one.reason for one in reading.rejected])


def test_of_two_processes_that_could_be_the_rank_neither_is(machine, node, image):
    node.process(7777, inside=100)
    node.process(7778, inside=100)
    machine.ring(image())

    assert (True, None) == node.up()


def test_the_process_table_is_looked_through_seldom_and_not_for_ever(machine, image, monkeypatch):
    searches = []
    monkeypatch.setattr(Writers, "_search", lambda self: searches.append(1) or {})
    machine.ring(image(rank=0, heartbeat_ns=STALE))
    machine.ring(image(rank=1, heartbeat_ns=STALE))
    source = RankRings(machine.rings, machine.proc, machine.clock)
    for _ in range(100):
        source.read()
        machine.clock.sleep(SEARCH_SECONDS / 5)

    assert MAX_SEARCHES <= len(searches) <= 2 * MAX_SEARCHES


RANK = """
    import os, random, sys, time
    from pathlib import Path

    def forked():
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return child == 0

    # Not the first process of its namespace: a browser beside may know itself as 1, too.
    for _ in range(random.randint(200, 500)):
        if forked():
            os._exit(0)
    if not forked():
        os._exit(0)

    from lockstep.workloads.measure.process import wall_minus_monotonic_ns
    from lockstep.workloads.ring import Identity, RingWriter

    wall = wall_minus_monotonic_ns()[0]
    ring = RingWriter(Path(sys.argv[1]), Identity(
        run="inside", node="node-0", uuid="", rank=0, world=1, local_rank=0, attempt=0, dp=0,
        pp=0, tp=0, gpu=-1, start_wall_ns=wall + time.monotonic_ns(), wall_minus_monotonic_ns=wall,
    ))
    print(os.getpid(), flush=True)
    time.sleep(60)
"""


@pytest.mark.root
def test_a_real_rank_in_a_real_pid_namespace_is_found_and_its_end_is_seen(tmp_path):
    inside = ["unshare", "--pid", "--fork", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*inside, "true"]).returncode != 0:
        pytest.skip("needs the right to make pid namespaces")
    source = RankRings(tmp_path, Path("/proc"), SystemClock())
    command = [*inside, sys.executable, "-c", textwrap.dedent(RANK), str(tmp_path / "rank-0.ring")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            inside_as = int(holder.stdout.readline())
            (rank,) = source.read().ranks
            assert rank.up
            assert rank.pid not in (None, inside_as)
            os.kill(rank.pid, signal.SIGKILL)
            until = time.monotonic() + 60
            while source.read().ranks[0].up and time.monotonic() < until:
                time.sleep(0.05)
            assert not source.read().ranks[0].up
        finally:
            holder.kill()
