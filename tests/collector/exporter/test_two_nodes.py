"""Two nodes as far as one machine can have them: namespaces of their own for network and clock."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from lockstep.collector.contract.archive import OPS
from lockstep.collector.recorder.rows import RankAnswer, op_rows, op_start_ns, rank_answers

STEPS = 30
ERROR_NS = 20_000_000
"""What the rings state as the error of their clocks; the scheduler of a busy machine is in it."""
UPTIME_AHEAD = (0, 86_400)
"""Seconds by which the monotonic clock of each node is shifted."""
WALL_AHEAD_NS = (0, 3_000_000_000)
"""By how much the wall clock that each rank sees is wrong; the run's clock is rank 0's."""

RANK = """
    import socket, sys, time
    from pathlib import Path
    from lockstep.collector.contract.words import GROUPS, OPS, PHASES
    from lockstep.workloads.measure.process import wall_minus_monotonic_ns
    from lockstep.workloads.ring import Identity, RingWriter

    folder, (rank, ahead_ns, error_ns, steps) = Path(sys.argv[1]), map(int, sys.argv[2:])
    # What a clock synchronisation would find, wrong by a quarter of the error that it states.
    wall = wall_minus_monotonic_ns()[0] + ahead_ns
    who = Identity(
        run="two-nodes", node=f"node-{rank}", uuid="", rank=rank, world=2, local_rank=0, attempt=0,
        dp=rank, pp=0, tp=0, gpu=-1, start_wall_ns=wall + time.monotonic_ns(),
        wall_minus_monotonic_ns=wall, clock_offset_ns=-ahead_ns + rank * error_ns // 4,
        clock_error_ns=error_ns,
    )
    ring = RingWriter(folder / f"rank-{rank}.ring", who)
    if rank == 0:
        with socket.create_server(("10.99.0.1", 9500)) as server:
            peer, _ = server.accept()
    else:
        for _ in range(1500):
            try:
                peer = socket.create_connection(("10.99.0.1", 9500))
                break
            except OSError:
                time.sleep(0.02)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    op, group = OPS.index("dp-all-reduce"), GROUPS.index("dp")
    for step in range(steps):
        start = time.monotonic_ns()
        time.sleep(0.002 * (1 + rank))
        arrival = ring.begin(op, group)
        # Both leave once both have arrived.
        peer.sendall(b"x")
        peer.recv(1)
        wait = ring.end(op, group, arrival, 4096, 0xFFFF)
        wall_ns = time.monotonic_ns() - start
        ring.end_step(
            start_ns=start, wall_ns=wall_ns, cpu_ns=0, own_ns=wall_ns - wait, wait_ns=wait,
            phase_ns=[0] * len(PHASES),
            tags=0, samples=1, tokens=1, flops=0.0, loss=0.0,
        )
    print("done")
"""
FETCH = """
    import sys
    from lockstep.collector.clock import SystemClock
    from lockstep.collector.recorder.recorder import Target
    for url in sys.argv[2:]:
        print(Target(url).get(sys.argv[1], 10).decode())
"""


@dataclass(frozen=True)
class Node:
    """A process that holds the namespaces of one node."""

    pid: int
    address: str
    shifted: bool

    def command(self, *arguments: str) -> list[str]:
        enter = ["nsenter", "-t", str(self.pid), "-n", *(["-T"] if self.shifted else [])]
        return [*enter, *arguments]

    def python(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(sys.executable, *arguments),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


def _shifts_clocks() -> bool:
    """Whether the kernel has time namespaces."""
    try:
        return subprocess.run(
            ["unshare", "--time", "--monotonic", "1", "--fork", "true"],
            capture_output=True, timeout=240,
        ).returncode == 0  # fmt: skip
    except OSError:
        return False


@contextmanager
def _node(index: int) -> Iterator[Node]:
    ahead, shifted = str(UPTIME_AHEAD[index]), _shifts_clocks()
    clock = ("--time", "--monotonic", ahead, "--boottime", ahead) if shifted else ()
    holder = subprocess.Popen(["unshare", "--net", *clock, "--kill-child", "sleep", "60"])
    try:
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
        deadline = time.monotonic() + 60
        while not (pids := children.read_text().split()) and time.monotonic() < deadline:
            assert holder.poll() is None
            time.sleep(0.01)
        yield Node(int(pids[0]), f"10.99.0.{index + 1}", shifted)
    finally:
        holder.kill()
        holder.wait()


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    tools = [name for name in ("ip", "unshare", "nsenter") if shutil.which(name) is None]
    if os.geteuid() != 0 or tools:
        pytest.skip(f"needs root and {', '.join(tools) or 'network namespaces'}")
    if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs the right to make network namespaces")
    with _node(0) as first, _node(1) as second:
        veth = ["ip", "link", "add", "lk0", "netns", str(first.pid), "type", "veth"]
        made = subprocess.run(
            [*veth, "peer", "name", "lk1", "netns", str(second.pid)], capture_output=True, text=True
        )
        if made.returncode != 0:
            pytest.skip(f"needs veth: {made.stderr.strip()}")
        for index, node in enumerate((first, second)):
            for words in (
                ("addr", "add", f"{node.address}/24", "dev", f"lk{index}"),
                ("link", "set", f"lk{index}", "up"),
                ("link", "set", "lo", "up"),  # a node also talks to itself
            ):
                subprocess.run(node.command("ip", *words), check=True)
        yield first, second


def _finished(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return out


def _ends(answer: RankAnswer, starts: dict[int, int]) -> list[int]:
    """Completion of each step's all-reduce on the run's clock, as the recorder writes it."""
    names = [column.name for column in OPS]
    rows = (dict(zip(names, row, strict=True)) for row in op_rows(answer, answer.ops, starts, 1))
    return [row["end_ns"] for row in rows if row["optype"] == "dp-all-reduce"]


@pytest.mark.root
@pytest.mark.distributed
@pytest.mark.timed
def test_the_same_steps_of_two_nodes_with_shifted_clocks_are_aligned(nodes, tmp_path):
    folders = [tmp_path / node.address for node in nodes]
    for folder in folders:
        folder.mkdir()
    script = textwrap.dedent(RANK)
    ranks = [
        node.python("-c", script, str(folder), *map(str, (rank, ahead_ns, ERROR_NS, STEPS)))
        for rank, (node, folder, ahead_ns) in enumerate(
            zip(nodes, folders, WALL_AHEAD_NS, strict=True)
        )
    ]
    assert ["done\n", "done\n"] == [_finished(rank) for rank in ranks]

    with ExitStack() as stack:
        urls = []
        for node, folder in zip(nodes, folders, strict=True):
            where = folder / "address"
            collector = node.python(
                "-m", "lockstep.collector", "--listen", f"{node.address}:9410",
                "--announce", str(where), "--lockstep-dir", str(folder), "--sources", "rank_ring",
            )  # fmt: skip
            stack.callback(collector.communicate, timeout=10)
            stack.callback(collector.terminate)
            urls.append((where, f"http://{node.address}:9410"))
        deadline = time.monotonic() + 60
        while not all(where.exists() for where, _ in urls):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        query = "/ops?run=two-nodes&from_step=10&to_step=20"
        fetch = nodes[0].python("-c", textwrap.dedent(FETCH), query, *(url for _, url in urls))
        bodies = _finished(fetch).splitlines()

    told = [json.loads(body)["ranks"][0] for body in bodies]
    answers = [rank_answers(body.encode(), "two-nodes")[0] for body in bodies]
    offsets = [one["wall_minus_monotonic_ns"] for one in told]
    if nodes[0].shifted:
        assert abs(offsets[0] - offsets[1]) > 80_000 * 10**9  # a day of uptime less 3 s
    assert [list(range(10, 20))] * 2 == [one["steps"]["step"] for one in told]
    starts = {op.step: op_start_ns(answers[0], op) for op in answers[0].ops}
    apart = [
        abs(first - second)
        for first, second in zip(*(_ends(answer, starts) for answer in answers), strict=True)
    ]
    assert len(apart) == 10
    assert median(apart) < ERROR_NS
    assert {ERROR_NS} == {one["clock_error_ns"] for one in told}
