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
from lockstep.collector.contract import ring
from lockstep.collector.contract.words import PHASES, RANK_STATES, RankState
from lockstep.collector.sources.ranks.processes import MAX_SEARCHES, SEARCH_SECONDS, Writers
from lockstep.collector.sources.ranks.records import read_records
from lockstep.collector.sources.ranks.rings import LivingRanks, Rings
from lockstep.collector.sources.ranks.source import RankRings
from lockstep.workloads.launch import ring_state
from lockstep.workloads.ring import GROUP_INDEX, OP_INDEX, Identity, RingWriter

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


# The workloads' own writer against the collector's reader.


def test_what_a_rank_writes_is_what_the_collector_reads(tmp_path):
    who = Identity(
        run="gpt-1", node="node-0", uuid="GPU-é", rank=2, world=4, local_rank=0, attempt=0,
        dp=2, pp=0, tp=0, gpu=0, start_wall_ns=5, wall_minus_monotonic_ns=6,
    )  # fmt: skip
    path = tmp_path / ring.file_name(2)
    writer = RingWriter(path, who)
    writer.state(RankState.RUNNING)
    tag = writer.tag("grads.0")
    dp = GROUP_INDEX["dp"]
    for _ in range(3):
        start = time.monotonic_ns()
        writer.local(OP_INDEX["forward-compute"], start, time.monotonic_ns())
        arrival = writer.begin(OP_INDEX["dp-all-reduce"], dp)
        writer.end(OP_INDEX["dp-all-reduce"], dp, arrival, 4096, tag)
        writer.end_step(
            start_ns=start, wall_ns=1000, cpu_ns=500, own_ns=700, wait_ns=300,
            phase_ns=list(range(len(PHASES))), tags=1, samples=4, tokens=256, flops=1e9, loss=1.5,
        )  # fmt: skip
    writer.begin(OP_INDEX["dp-all-reduce"], dp)
    writer.round_trip(150_000)

    (rank,) = RankRings(tmp_path, tmp_path.__class__("/proc"), SystemClock()).read().ranks
    records = read_records(path, 0, None, SystemClock())
    writer.close()

    live = rank.header.live
    assert rank.up
    assert rank.header.state is RankState.RUNNING
    assert (rank.header.identity.uuid, rank.header.identity.pid) == ("GPU-é", os.getpid())
    assert rank.header.round_trip_ns == 150_000
    assert (live.steps, live.wall_ns, live.own_ns, live.tokens) == (3, 3000, 2100, 768)
    assert live.phase_ns == tuple(3 * index for index in range(len(PHASES)))
    assert (live.open.op, live.open.sequence) == ("dp-all-reduce", 4)
    assert [(g.name, g.enqueued, g.completed) for g in live.groups if g.enqueued] == [("dp", 4, 3)]
    assert [step.step for step in records.steps] == [0, 1, 2]
    assert [op.tag for op in records.ops] == ["", "grads.0"] * 3


def test_who_ends_a_pod_says_so_for_the_ranks_that_live_and_for_no_others(tmp_path):
    said = (RankState.STARTING, RankState.RUNNING, RankState.FINISHED, RankState.RUNNING)
    writers = []
    for rank, state in enumerate(said):
        who = Identity(
            run="gpt-1", node="node-0", uuid="", rank=rank, world=4, local_rank=rank, attempt=0,
            dp=rank, pp=0, tp=0, gpu=-1, start_wall_ns=5, wall_minus_monotonic_ns=6,
        )  # fmt: skip
        writers.append(RingWriter(tmp_path / ring.file_name(rank), who))
        writers[-1].state(state)
    (tmp_path / ring.file_name(4)).write_bytes(b"LKSTRING")
    # The last one died some seconds ago.
    with (tmp_path / ring.file_name(3)).open("r+b") as file:
        file.seek(ring.HEARTBEAT_OFFSET)
        file.write(ring.HEARTBEAT.pack(time.monotonic_ns() - 4_000_000_000))

    subprocess.run([sys.executable, "-m", ring_state.__name__, tmp_path], check=True, timeout=60)

    told = [ring.Header(path.read_bytes()).state for path in sorted(tmp_path.glob("*.ring"))[:4]]
    assert [
        RankState.STOPPED, RankState.STOPPED, RankState.FINISHED, RankState.RUNNING
    ] == [RANK_STATES[state] for state in told]  # fmt: skip
    for writer in writers:
        writer.close()
