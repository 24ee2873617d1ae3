"""Lines as NCCL Inspector writes them: NVIDIA/nccl plugins/profiler/inspector/inspector_json.cc.

What differs from NCCL: durations are of the host's clock (`kernel_cpu`, which Inspector keeps with
NCCL_INSPECTOR_REQUIRE_KERNEL_TIMING=0), each line is written when its operation ends, and small
messages are kept unless NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES says otherwise: a run on CPU has no
large ones.
"""

import json
import os
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from io import TextIOWrapper
from pathlib import Path
from time import monotonic_ns

import torch.distributed as dist

from lockstep.collector.contract.bandwidth import (
    OPERATIONS,
    algorithm_bandwidth,
    bus_factor,
    whole_bytes,
)
from lockstep.workloads.measure.formats import Streams
from lockstep.workloads.measure.process import wall_minus_monotonic_ns

FUNCTIONS: dict[str, str] = {
    "-all-reduce": "AllReduce",
    "-all-gather": "AllGather",
    "-reduce-scatter": "ReduceScatter",
    "-broadcast": "Broadcast",
    "-barrier": "AllReduce",  # as torch does it on NCCL
    "-clip-main-grad": "AllReduce",
    "-send": "Send",
    "-recv": "Recv",
}
"""End of a name of words.OPS -> NCCL's function."""
LEAST_BYTES = "NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES"
FLUSH_NS = 500_000_000
NODES = 1


@dataclass(frozen=True, slots=True)
class _Arrived:
    function: str
    group: dist.ProcessGroup
    number: int
    size: int
    peer: int | None


class InspectorLines:
    """A Timer that writes `<host>-pid<pid>.log`.

    Args:
        folder: Where; it is made.
        node: The host's name.
        run: Run id; NCCL's communicators have other ids in every job, too.

    Raises:
        OSError: The file cannot be made.
    """

    def __init__(self, folder: Path, node: str, run: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._node = node
        self._run = run
        self._pid = os.getpid()
        self._file: TextIOWrapper = (folder / f"{node}-pid{self._pid}.log").open("w")
        self._least = int(os.environ.get(LEAST_BYTES) or 0)
        self._numbers: Counter[tuple[str, str]] = Counter()
        self._headers: dict[str, str] = {}
        self._streams = Streams()
        self._flushed = monotonic_ns()
        self._wall, _ = wall_minus_monotonic_ns()

    def arrive(self, op: str, group: dist.ProcessGroup, size: int, peer: int | None) -> object:
        """See Timer."""
        function = next((FUNCTIONS[end] for end in FUNCTIONS if op.endswith(end)), None)
        ranks = group.size()
        if function is None or ranks < 2:
            return None
        size = size // (whole_bytes(OPERATIONS[function], 1, ranks))
        # NCCL numbers collectives by function from 0, also those that are not written; Inspector
        # itself numbers the transfers that it writes, from 1.
        key = (group.group_name, function if peer is None else "")
        if peer is not None and size < self._least:
            return None
        number = self._numbers[key] + (peer is not None)
        self._numbers[key] += 1
        return _Arrived(function, group, number, size, peer) if size >= self._least else None

    def complete(self, arrived: object, begin_ns: int, end_ns: int) -> None:
        """See Timer."""
        if not isinstance(arrived, _Arrived):
            return
        seconds = self._streams.seconds(arrived.group.group_name, begin_ns, end_ns)
        kind = "coll" if arrived.peer is None else "p2p"
        peer = "" if arrived.peer is None else f'"p2p_peer":{arrived.peer},'
        op, ranks = OPERATIONS[arrived.function], arrived.group.size()
        micros = max(round(seconds * 1e6), 1)
        speed = algorithm_bandwidth(op, arrived.size, ranks, micros) / 1e3
        bus = speed * bus_factor(op, ranks)
        now = monotonic_ns()
        self._file.write(
            f'{{"header":{self._header(arrived.group)},"metadata":{{'
            '"inspector_output_format_version":"v4.0","git_rev":"",'
            '"rec_mechanism":"nccl_profiler_interface",'
            f'"dump_timestamp_us":{(now + self._wall) // 1000},"hostname":"{self._node}",'
            f'"pid":{self._pid}}},"{kind}_perf":{{"{kind}":"{arrived.function}",'
            f'"{kind}_sn":{arrived.number},{peer}"{kind}_msg_size_bytes":{arrived.size},'
            f'"{kind}_exec_time_us":{micros},"{kind}_timing_source":"kernel_cpu",'
            f'"{kind}_algobw_gbs":{speed:.6f},"{kind}_busbw_gbs":{bus:.6f}}}}}\n'
        )
        if now - self._flushed > FLUSH_NS:
            self._file.flush()
            self._flushed = now

    def close(self) -> None:
        """See Timer."""
        self._file.close()

    def _header(self, group: dist.ProcessGroup) -> str:
        known = self._headers.get(group.group_name)
        if known is None:
            ranks = dist.get_process_group_ranks(group)
            said = f"{self._run} {group.group_name} {ranks}".encode()
            tree = {
                "id": f"0x{sha256(said).hexdigest()[:14]}", "comm_name": group.group_desc,
                "rank": group.rank(), "n_ranks": group.size(), "nnodes": NODES,
            }  # fmt: skip
            known = self._headers[group.group_name] = json.dumps(tree, separators=(",", ":"))
        return known
