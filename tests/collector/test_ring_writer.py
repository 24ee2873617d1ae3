"""The workloads' own writer against the collector's reader."""

import os
import subprocess
import sys
import time

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import ring
from lockstep.collector.contract.words import PHASES, RANK_STATES, RankState
from lockstep.collector.sources.ranks.records import read_records
from lockstep.collector.sources.ranks.source import RankRings
from lockstep.workloads.launch import ring_state
from lockstep.workloads.ring import GROUP_INDEX, OP_INDEX, Identity, RingWriter


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
