"""How soon the page tells that a GPU is lost, new, gone or partitioned: the worst of all tries.

From the change of what the driver says to the first page that shows it, which is asked for
20 times a second. LOCKSTEP_BENCH_TRIES lessens the tries.
"""

import os
import time

from collector.contract import metrics as m
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
}


def main() -> dict[str, float]:
    """Seconds."""
    times: dict[str, list[float]] = {}
    with Node(gpus=GPUS - 1) as node:

        def note(name: str, alive: int) -> None:
            times.setdefault(name, []).append(_until(node, alive))

        _until(node, GPUS - 1)
        for _ in range(TRIES):
            node.mock.gpu(1).every_rc = LOST
            note("lost_gpu", GPUS - 2)
            node.mock.gpu(1).every_rc = 0
            _until(node, GPUS - 1)
            node.mock.plug(GPUS)
            note("new_gpu", GPUS)
            node.mock.state.count = GPUS - 1
            note("removed_gpu", GPUS - 1)
            for parts in (2, 0):
                node.mock.partition(2, parts)
                note("mig_change", GPUS - 1 + parts)
    figures = {"tries": float(TRIES)}
    for name, each in times.items():
        figures |= {f"{name}_seconds_mean": sum(each) / len(each)}
        figures |= {f"{name}_seconds_max": max(each)}
    return figures


def _until(node: Node, alive: int) -> float:
    """Seconds until the page shows so many GPUs and parts of GPUs that are up."""
    began = time.monotonic()
    while (found := _alive(node)) != alive:
        if time.monotonic() - began > PATIENCE_SECONDS:
            raise RuntimeError(f"the page shows {found} and not {alive} GPUs that are up")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - began


def _alive(node: Node) -> int:
    start = f"{m.GPU_UP.name}{{"
    return sum(value == 1 for name, value in node.series().items() if name.startswith(start))
