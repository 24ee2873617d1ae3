"""What-if simulation: every published quantity of a trace, and a run of 10,000 GPUs.

The trace is the published one where it lies beside the repository, else a synthetic one of its
size. CPU seconds are of all threads, so they bound what one core needs; wall time stands beside.
The naive implementation simulates one operation of one replica in one step after the other.
"""

import resource
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np
import pandas as pd

from lockstep.analyzer.operations.whatif.analysis import WhatIf, analyze
from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.graph import MERGED, Graph
from lockstep.analyzer.operations.whatif.slowdown import Slowdown, slowdown
from lockstep.analyzer.operations.whatif.trust import compare
from lockstep.analyzer.operations.whatif.work import published_ideals, split_durations
from lockstep.analyzer.read.optrace.load import load_trace, read_meta
from lockstep.analyzer.shapes.operations import Floats, Layout, Trace
from lockstep.evaluation.synth import traces as synth

ROUNDS = 5
GOALS = {
    "published_cpu_seconds": 0.3,
    "published_and_read_cpu_seconds": 0.3,
    "naive_largest_relative_difference": 1e-9,
    "run_of_10000_gpus_cpu_seconds": 4.0,
    "run_of_10000_gpus_peak_megabytes": 2000,
}
LARGE = synth.Scene(
    dp=160, pp=8, micro_batches=32, steps=10, last_stage=1.1, lengths=1.3,
    slow=(synth.Slow(77, 3, 1.2), synth.Slow(12, 7, 1.1)),
)  # fmt: skip
"""1,280 workers of 8 tensor-parallel GPUs."""


def main() -> dict[str, float]:
    """CPU is the least of some rounds: other programs only add to it."""
    with TemporaryDirectory() as folder:
        path, layout = _file(Path(folder))
        read = _least(lambda: load_trace(path, layout))
        trace = load_trace(path, layout)
    figures = {"operations": float(trace.start.size)}
    cpu, wall = _least(lambda: _published(trace))
    figures |= {
        "published_cpu_seconds": cpu,
        "published_wall_seconds": wall,
        "read_cpu_seconds": read[0],
        "published_and_read_cpu_seconds": cpu + read[0],
    }
    began = process_time()
    slow = _naive(trace)
    figures["naive_cpu_seconds"] = process_time() - began
    figures["naive_over_ours"] = figures["naive_cpu_seconds"] / cpu
    fast = _quantities(_published(trace))
    figures["naive_largest_relative_difference"] = float(np.max(np.abs(slow / fast - 1)))
    figures["all_with_intervals_and_candidates_cpu_seconds"] = _least(lambda: analyze(trace))[0]
    return figures | _large()


def _large() -> dict[str, float]:
    trace = synth.trace(LARGE)
    cpu, wall = process_time(), perf_counter()
    found = analyze(trace, top=20)
    cpu, wall = process_time() - cpu, perf_counter() - wall
    assert isinstance(found, WhatIf)
    named = {(one.dp, one.stage) for one in found.candidates[:2]}
    assert {(one.dp, one.stage) for one in LARGE.slow} == named, named
    return {
        "run_of_10000_gpus_operations": float(trace.start.size),
        "run_of_10000_gpus_cpu_seconds": cpu,
        "run_of_10000_gpus_wall_seconds": wall,
        "run_of_10000_gpus_peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        / 1e3,
    }


def _least(call: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall seconds."""
    times = []
    for _ in range(ROUNDS):
        cpu, wall = process_time(), perf_counter()
        call()
        times.append((process_time() - cpu, perf_counter() - wall))
    cpus, walls = zip(*times, strict=True)
    return min(cpus), min(walls)


def _file(folder: Path) -> tuple[Path, Layout]:
    for above in Path(__file__).resolve().parents:
        data = above / "shared/data/bytedance"
        if data.is_dir():
            return data / "trace-AR.parquet", read_meta(data / "meta-AR.yaml")
    trace = synth.trace(synth.Scene(dp=4, pp=4, micro_batches=32, steps=44))
    op, dp, step = (axis.reshape(-1) for axis in np.indices(trace.start.shape))
    pd.DataFrame(
        {
            "dp_rank": dp, "stage": trace.stage[op], "rank": trace.ranks[dp, trace.stage[op]],
            "step": trace.steps[step], "optype": trace.optype[op],
            "start_ts": trace.start.reshape(-1), "duration": trace.duration.reshape(-1),
            "seq_id": trace.seq[op], "mc": trace.chunk[op], "gmc": trace.global_chunk[op],
            "mb_id": trace.micro_batch[op],
        }
    ).to_parquet(folder / "ops.parquet")  # fmt: skip
    return folder / "ops.parquet", trace.layout


def _published(trace: Trace) -> Slowdown:
    """S, S_t, S_dp, S_pp, per step, M_W and M_S, with the self-check."""
    graph = build(trace)
    work = split_durations(trace, graph)
    trust = compare(trace, graph, work)
    return slowdown(trace, graph, work.own, published_ideals(trace, work.own), trust.simulated)


def _quantities(found: Slowdown) -> Floats:
    """The simulated mean step times, in the order of `_naive`."""
    types = [found.by_type[name].mean() for name in sorted(found.by_type)]
    return np.array([
        found.simulated.mean(), found.ideal, *types, *found.by_dp.mean(axis=1),
        *found.by_stage.mean(axis=1), found.worst.fixed.mean(), found.worst.only.mean(),
        found.last_stage.fixed.mean(),
    ])  # fmt: skip


def _naive(trace: Trace) -> Floats:
    """The same by one simulation a quantity, one operation at a time."""
    graph = build(trace)
    own = split_durations(trace, graph).own
    ideal = np.broadcast_to(published_ideals(trace, own), own.shape)
    names = np.array([MERGED.get(name, name) for name in trace.optype.tolist()])
    dp = np.arange(trace.layout.dp)
    stage = np.broadcast_to(trace.stage[:, None], own.shape[:2])
    replica = np.broadcast_to(dp, own.shape[:2])
    worst = _published(trace).worst.workers[0]
    chosen = (replica == worst[0]) & (stage == worst[1])
    keep = [
        np.ones_like(chosen), np.zeros_like(chosen),
        *(np.broadcast_to((names == name)[:, None], chosen.shape) for name in np.unique(names)),
        *(replica == one for one in dp), *(stage == one for one in range(trace.layout.pp)),
        ~chosen, chosen, stage != trace.layout.pp - 1,
    ]  # fmt: skip
    return np.array([_one_by_one(graph, np.where(k[:, :, None], own, ideal)) for k in keep])


def _one_by_one(graph: Graph, own: Floats) -> float:
    """Mean seconds of a step."""
    operations, replicas, steps = own.shape
    total = 0.0
    for step in range(steps):
        times = own[:, :, step].tolist()
        end = [[0.0] * replicas for _ in range(operations)]
        for unit in graph.units:
            arrival = [0.0] * replicas
            for op in unit.members:
                for other in graph.before[op]:
                    for dp in range(replicas):
                        if end[other][dp] > arrival[dp]:
                            arrival[dp] = end[other][dp]
            if unit.replicas:
                arrival = [max(arrival)] * replicas
            for op in unit.members:
                for dp in range(replicas):
                    end[op][dp] = arrival[dp] + times[op][dp]
        total += max(max(end[op]) for op in graph.last)
    return float(total / steps)
