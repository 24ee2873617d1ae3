"""torch's own flight-recorder dump with durations, which it has on NCCL and lacks on gloo.

`duration_ms` is torch's own key (c10d FlightRecorder.hpp: of entries with timing enabled).
Simulated are the durations, of our clock reads around the call that made the entry, and the entries
of sends and receives, which torch makes on NCCL and not on gloo. All else is what torch dumps.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, filterfalse
from pathlib import Path
from time import monotonic_ns
from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.whole_file import write_whole
from lockstep.workloads.measure.flight_recorder import TRACE
from lockstep.workloads.measure.formats import Streams
from lockstep.workloads.measure.process import wall_minus_monotonic_ns

BUFFER = "TORCH_FR_BUFFER_SIZE"
MOST_ENTRIES = 20_000
"""At 500 bytes each; torch's default is 2,000."""
DURATION = "duration_ms"
CREATED = "time_created_ns"
FLOAT_BYTES = 4
PREFIX = "nccl_trace_rank_"
"""torch's default, in its temporary folder."""


@dataclass(slots=True)
class _Arrived:
    group: dist.ProcessGroup
    since_ns: int
    op: str
    size: int
    peer: int | None
    seconds: float | None = None


class TimedFlightRecorder:
    """A Timer that writes the dump when the run ends.

    Args:
        folder: Where; it is made.
        rank: Global rank.

    Raises:
        OSError: The folder cannot be made.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{PREFIX}{rank}"
        # Read by torch when the first group is made.
        os.environ.setdefault(BUFFER, str(MOST_ENTRIES))
        self._timed: list[_Arrived] = []
        self._streams = Streams()
        self._wall, _ = wall_minus_monotonic_ns()

    def arrive(self, op: str, group: dist.ProcessGroup, size: int, peer: int | None) -> object:
        """See Timer."""
        arrived = _Arrived(group, monotonic_ns() + self._wall, op, size, peer)
        self._timed.append(arrived)
        return arrived

    def complete(self, arrived: object, begin_ns: int, end_ns: int) -> None:
        """See Timer."""
        if isinstance(arrived, _Arrived):
            arrived.seconds = self._streams.seconds(arrived.group.group_name, begin_ns, end_ns)

    def close(self) -> None:
        """See Timer."""
        dump: Callable[[], bytes] = getattr(_distributed_c10d, TRACE)
        tree = with_durations(bounded_json.loads(dump(), limit=None), self._timed)
        tree["entries"] += transfers(tree["entries"], self._timed)
        write_whole(self._path, json.dumps(tree, separators=(",", ":")), mode=None)


def with_durations(tree: Any, timed: list[_Arrived]) -> Any:
    """The dump, each entry with the duration of the call within which it was made.

    Args:
        tree: As torch dumps it; changed in place.
        timed: What was timed, by arrival.
    """
    by_group: dict[str, list[_Arrived]] = {}
    for one in timed:
        if one.peer is None:
            by_group.setdefault(one.group.group_name, []).append(one)
    for entry in sorted(tree["entries"], key=lambda one: int(one["record_id"])):
        mine = by_group.get(entry["process_group"][0], [])
        created = int(entry[CREATED])
        # Calls whose entry was overwritten come before this one.
        while len(mine) > 1 and mine[1].since_ns <= created:
            mine.pop(0)
        if mine and mine[0].since_ns <= created:
            seconds = mine.pop(0).seconds
            if seconds is not None:
                entry[DURATION] = seconds * 1e3
    return tree


def transfers(entries: list[dict[str, Any]], timed: list[_Arrived]) -> list[dict[str, Any]]:
    """Entries of sends and receives with their durations, as torch makes them on NCCL.

    Their `op_id` are those that gloo's group counted and did not record, in the same order.
    """
    of_group: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        of_group[entry["process_group"][0]].append(entry)
    free: dict[str, Iterator[int]] = {}
    counts: Counter[str] = Counter()
    made: list[dict[str, Any]] = []
    record = max((int(entry["record_id"]) for entry in entries), default=-1)
    for number, one in enumerate(
        (arrived for arrived in timed if arrived.peer is not None), record + 1
    ):
        name, mine = one.group.group_name, one.group.rank()
        if name not in free:
            taken = {int(entry["op_id"]) for entry in of_group[name]}
            free[name] = filterfalse(taken.__contains__, count(1))
        counts[name] += 1
        sizes = [[one.size // FLOAT_BYTES]]
        way = f"send {mine}->{one.peer}" if one.op.endswith("-send") else f"recv {mine}<-{one.peer}"
        entry = {
            "collective_seq_id": 0, "input_dtypes": ["Float"], "input_sizes": sizes,
            "is_p2p": True, "op_id": next(free[name]), "output_dtypes": ["Float"],
            "output_sizes": sizes, "p2p_seq_id": counts[name],
            "pg_id": of_group[name][0]["pg_id"] if of_group[name] else 0,
            "process_group": [name, one.group.group_desc], "profiling_name": f"gloo:{way}",
            "record_id": number, "retired": one.seconds is not None, "state": "scheduled",
            CREATED: one.since_ns, "time_discovered_completed_ns": 0,
            "time_discovered_started_ns": 0, "timeout_ms": 0,
        }  # fmt: skip
        if one.seconds is not None:
            entry[DURATION] = one.seconds * 1e3
        made.append(entry)
    return made
