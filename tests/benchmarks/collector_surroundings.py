"""What a node with eight 400G ports has around the collector, in a process of its own.

`python -m tests.benchmarks.collector_surroundings FOLDER PID`: makes a /sys, answers as NCCL's RAS
and as the kubelet, writes NCCL Inspector's files, flight-recorder dumps and the kernel's log, and
lets counters grow every second, until its standard input is closed. PID writes all the rings.
"""

import json
import os
import select
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from lockstep.collector.contract.flight_recorder import dump_name
from tests.benchmarks.collector_changes import xid_record
from tests.benchmarks.nccl_inspector import line
from tests.collector.network_node import node_8x400g
from tests.collector.sources.kubelet.test_pod_resources import FakeKubelet, pod
from tests.collector.sources.nccl.test_flight_recorder import entry, tree

RUN, RANKS = "benchmark", 8
LINES_PER_SECOND = 100
"""Of Inspector, each rank."""
DUMPED = 2000
"""Entries of torch's buffer."""
XID_SECONDS = 10
PROCESSORS_A_PACKAGE, PACKAGES = 56, 2
MOVING = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets",
          "port_xmit_wait")  # fmt: skip
COMMUNICATORS = (
    tuple(range(8)), *((n, n + 1) for n in range(0, 8, 2)), (0, 2, 4, 6), (1, 3, 5, 7)
)  # fmt: skip
"""Ranks of the world, of tensor parallel and of data parallel."""


class Node:
    """Where the files are; `network_node` makes its files with this."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sys, self.proc = folder, folder / "sys", folder / "proc"

    def file(self, path: Path, text: str) -> Path:
        """Write a file and the folders above it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


class Ras(socketserver.StreamRequestHandler):
    """A client of RAS 2.29: every answer tells of more collectives than the one before."""

    def handle(self) -> None:
        """Speak until the client hangs up or has its answer."""
        for raw in self.rfile:
            command = raw.decode().strip().upper()
            if command == "VERBOSE STATUS":
                self.wfile.write(_status(self.server.pid).encode())  # type: ignore[attr-defined]
                return
            known = command.startswith("CLIENT PROTOCOL")
            self.wfile.write(b"SERVER PROTOCOL 2\n" if known else b"OK\n")


def main(folder: Path, pid: int) -> None:
    """Build all of it, say so with a file `ready` that holds the port of RAS, and keep it going."""
    node = Node(folder)
    _sysfs(node)
    for rank in range(RANKS):
        node.file(folder / "dumps" / dump_name(RUN, rank), _dump())
    kubelet = FakeKubelet(folder / "kubelet.sock")
    kubelet.answer = b"".join(pod(f"gpt-{gpu}", f"GPU-{gpu}") for gpu in range(RANKS))
    kubelet.start()
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Ras)
    server.daemon_threads, server.pid = True, pid  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    seconds = _seconds(node, pid)
    next(seconds)
    node.file(folder / "ready.part", str(server.server_address[1])).rename(folder / "ready")
    while not select.select([sys.stdin], [], [], 1.0)[0]:
        next(seconds)
    server.shutdown()
    kubelet.stop()


def _sysfs(node: Node) -> None:
    node_8x400g(node)
    (node.sys / "fs").symlink_to("/sys/fs")
    for package in range(PACKAGES):
        zone = node.sys / f"class/thermal/thermal_zone{package}"
        node.file(zone / "type", "x86_pkg_temp\n")
        node.file(zone / "temp", "61500\n")
        for core in range(PROCESSORS_A_PACKAGE):
            number = package * PROCESSORS_A_PACKAGE + core
            processor = node.sys / f"devices/system/cpu/cpu{number}"
            node.file(processor / "topology/physical_package_id", f"{package}\n")
            node.file(processor / "topology/core_id", f"{core}\n")
            for level in ("core", "package"):
                counts = processor / "thermal_throttle"
                node.file(counts / f"{level}_throttle_count", "3\n")
                node.file(counts / f"{level}_throttle_total_time_ms", "1500\n")


def _seconds(node: Node, pid: int) -> Iterator[None]:
    """A second of a busy node with each turn."""
    logs = []
    for rank in range(RANKS):
        path = node.file(node.folder / f"inspector/rank{rank}/host-pid{pid}.log", "")
        logs.append(path.open("w"))
    counters = [
        os.open(port / "counters" / name, os.O_WRONLY)
        for port in sorted((node.sys / "class/infiniband").glob("*/ports/1")) for name in MOVING
    ]  # fmt: skip
    table = node.proc / "net/dev"
    head, rows = (lines := table.read_text().splitlines())[:2], lines[2:]
    kernel_log = (node.folder / "kmsg").open("w")
    for second in range(sys.maxsize):
        for counter in counters:
            # As long as before: the file is never short, whoever reads it meanwhile.
            os.pwrite(counter, f"{10**15 + second * 10**9}\n".encode(), 0)
        node.file(table.with_name("dev.part"), _grown(head, rows, second)).replace(table)
        first = second * LINES_PER_SECOND
        for rank, log in enumerate(logs):
            log.write("".join(line(first + n, rank) for n in range(LINES_PER_SECOND)))
            log.flush()
        if second % XID_SECONDS == 0:
            kernel_log.write(xid_record(second, second // XID_SECONDS % RANKS))
            kernel_log.flush()
        yield


def _grown(head: list[str], rows: list[str], second: int) -> str:
    """The table of network devices, so many seconds on."""
    lines = list(head)
    for row in rows:
        name, _, numbers = row.partition(":")
        counts = [int(number) for number in numbers.split()]
        for column, rate in ((0, 10**9), (1, 10**6), (8, 10**9), (9, 10**6)):
            counts[column] += rate * second
        lines.append(f"{name}: {' '.join(map(str, counts))}")
    return "\n".join(lines) + "\n"


def _dump() -> str:
    """What torch leaves of a full buffer, three collectives of it open."""
    created: dict[str, Any] = {"frames": [], "time_created_ns": time.time_ns() - 10**9}
    done: Callable[[int], dict[str, Any]] = partial(
        entry, state="completed", retired=True, **created
    )
    entries = [done(n) for n in range(1, DUMPED - 2)]
    entries += [entry(n, **created) for n in range(DUMPED - 2, DUMPED + 1)]
    return json.dumps(tree(entries, (DUMPED, DUMPED - 2, DUMPED - 3), ranks=str([*range(RANKS)])))


def _status(pid: int) -> str:
    """What RAS answers to VERBOSE STATUS in JSON."""
    count = int(time.monotonic() * 20)
    return json.dumps({
        "nccl_version": "2.29.1", "communicators_count": len(COMMUNICATORS),
        "communicators": [_communicator(n, pid, count) for n in range(len(COMMUNICATORS))],
        "ras": {"collection_time_sec": 0.01, "timeouts_count": 0},
    }, indent=2)  # fmt: skip


def _communicator(number: int, pid: int, count: int) -> dict[str, Any]:
    ranks = COMMUNICATORS[number]
    fine = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False,
            "abort_flag": False}  # fmt: skip
    launched = {"Broadcast": 8, "Reduce": 0, "AllGather": count, "ReduceScatter": count,
                "AllReduce": 3 * count}  # fmt: skip
    told = [
        {"rank": rank, "host": "127.0.0.1", "pid": pid, "cuda_dev": gpu, "nvml_dev": gpu,
         "status": fine, "collective_counts": launched} for rank, gpu in enumerate(ranks)
    ]  # fmt: skip
    return {
        "hash": f"0xae94423cfbb2ef4{number}", "secondary_hash": "0xb7e7187447156001:0xb8242ed28a7",
        "size": len(ranks), "ranks_count": len(ranks), "missing_ranks_count": 0,
        "ranks": told, "missing_ranks": [],
    }  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
