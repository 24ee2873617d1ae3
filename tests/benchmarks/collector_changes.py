"""How soon the page tells of a GPU lost, new, gone or partitioned, and of an XID: the worst try.

From the change of what the driver says, or the line in the kernel's log, to the first page that
shows it, which is asked for 20 times a second. LOCKSTEP_BENCH_TRIES lessens the tries.
"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lockstep.collector.contract import metrics as m
from tests.benchmarks.collector_node import GPUS, Node

TRIES = int(os.environ.get("LOCKSTEP_BENCH_TRIES", "5"))
POLL_SECONDS, PATIENCE_SECONDS = 0.05, 60.0
LOST = 15
"""NVML_ERROR_GPU_IS_LOST."""
GOALS = {
    "lost_gpu_seconds_max": 2.0,
    "new_gpu_seconds_max": 5.0,
    "removed_gpu_seconds_max": 5.0,
    "mig_change_seconds_max": 5.0,
    "xid_seconds_max": 1.0,
}


def main() -> dict[str, float]:
    """Seconds."""
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "kmsg"
        log.touch()
        with Node(GPUS - 1, None, "--kmsg", str(log)) as node:
            _until(lambda: _alive(node), GPUS - 1)
            for number in range(TRIES):
                _change_gpus(node, times)
                time.sleep(number / TRIES)  # anywhere between two readings
                with log.open("a") as lines:
                    lines.write(xid_record(number, 0))
                took = _until(lambda: _xids(node), number + 1)
                times.setdefault("xid", []).append(took)
    figures = {"tries": float(TRIES)}
    for name, each in times.items():
        figures |= {f"{name}_seconds_mean": sum(each) / len(each)}
        figures |= {f"{name}_seconds_max": max(each)}
    return figures


def xid_record(sequence: int, gpu: int) -> str:
    """A record of the kernel's log, of now: XID 31 of a GPU of the mock."""
    stamp = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) // 1000
    place = f"PCI:0000:{0x18 + gpu:02x}:00"
    return f"3,{sequence},{stamp},-;NVRM: Xid ({place}): 31, pid=1, name=python, MMU Fault\n"


def _change_gpus(node: Node, times: dict[str, list[float]]) -> None:
    def note(name: str, alive: int) -> None:
        times.setdefault(name, []).append(_until(lambda: _alive(node), alive))

    node.mock.gpu(1).every_rc = LOST
    note("lost_gpu", GPUS - 2)
    node.mock.gpu(1).every_rc = 0
    _until(lambda: _alive(node), GPUS - 1)
    node.mock.plug(GPUS)
    note("new_gpu", GPUS)
    node.mock.state.count = GPUS - 1
    note("removed_gpu", GPUS - 1)
    for parts in (2, 0):
        node.mock.partition(2, parts)
        note("mig_change", GPUS - 1 + parts)


def _until(count: Callable[[], float], wanted: float) -> float:
    """Seconds until the page shows so many."""
    began = time.monotonic()
    while (found := count()) != wanted:
        if time.monotonic() - began > PATIENCE_SECONDS:
            raise RuntimeError(f"the page shows {found:g} and not {wanted:g}")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - began


def _alive(node: Node) -> int:
    """GPUs and parts of GPUs that are up."""
    start = f"{m.GPU_UP.name}{{"
    return sum(value == 1 for name, value in node.series().items() if name.startswith(start))


def _xids(node: Node) -> float:
    """XIDs that the page counts."""
    start = f"{m.GPU_XID_ERRORS.name}{{"
    return sum(value for name, value in node.series().items() if name.startswith(start))
