"""One pass over 10,000 GPUs, 1 h at 15 s, 20 metrics: from an archive on disk to alarms.

What is read: all of samples.parquet, 48 million rows in the archive's own columns, in 120 part
files of 30 s with the recorder's writer settings, ranks.parquet, and the state of the hour before.
FLEET_GPUS in the environment makes the fleet smaller. Seconds are of the wall on up to two cores;
the CPU of all threads stands beside. Making the archive is not counted.
"""

import os
import resource
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analyzer.sequential_test import archive as fleet_archive
from analyzer.sequential_test.arrays import TelemetryArrays
from analyzer.sequential_test.budget import Budget
from analyzer.sequential_test.metrics import MonitoredMetric
from analyzer.sequential_test.state import State
from analyzer.sequential_test.state_file import restore, save
from analyzer.sequential_test.watching import watch
from collector.contract import archive
from collector.contract.metrics import METRICS
from collector.recorder.parts import arrow_schema
from tests.benchmarks.fleet_noise import Noise

GPUS = int(os.environ.get("FLEET_GPUS", "10000"))
PERIOD = 15.0
CHECKS = 240
PART_CHECKS = 2
SLOW = {17: (100, 1.10), GPUS // 2 + 3: (150, 1.15)}
"""GPU -> from which check of the hour, and how much slower."""
GOALS = {"seconds": 10.0, "peak_megabytes": 2000.0, "slow_missed": 0.0, "others_named": 0.0}
NAMES = [name for name in METRICS if name.startswith("lockstep_gpu_")][:20]
WATCHED = tuple(MonitoredMetric(name, 1, True, 0.015, 0.14, 0.005) for name in NAMES)


def main() -> dict[str, float]:
    # A process each: making the archive must not burden the pass.
    with TemporaryDirectory() as folder:
        for step in (make, one_pass):
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                figures = process.submit(step, Path(folder)).result()
    return figures


def make(folder: Path) -> dict[str, float]:
    """Two hours: the first becomes the state, the second the archive."""
    noise = Noise(GPUS, len(WATCHED), seed=20)
    pq.write_table(_ranks(), folder / archive.RANKS_FILE)
    samples = folder / archive.SAMPLES_FILE
    samples.mkdir()
    state = State.new()
    budget = Budget(streams=8 * len(WATCHED))
    for begin in range(0, 2 * CHECKS, PART_CHECKS):
        values = noise.take(PART_CHECKS)
        times = PERIOD * np.arange(begin, begin + PART_CHECKS)
        if begin < CHECKS:
            state = watch(_fleet(times + PERIOD, values), state, budget).state
            continue
        for gpu, (check, factor) in SLOW.items():
            values[max(0, check + CHECKS - begin) :, 0, gpu] *= factor
        # Sensors tell about four digits.
        table = _samples(times, np.round(values, 4))
        pq.write_table(table, samples / f"part-{begin:06d}.parquet", compression="zstd")
    save(state, folder / "state.npz")
    return {}


def one_pass(folder: Path) -> dict[str, float]:
    wall, cpu = perf_counter(), process_time()
    fleet = fleet_archive.read(folder, WATCHED, PERIOD)
    read_wall, read_cpu = perf_counter() - wall, process_time() - cpu
    state, why = restore(folder / "state.npz")
    assert why is None, why
    found = watch(fleet, state, Budget(streams=8 * len(WATCHED)))
    save(found.state, folder / "state.npz")
    wall, cpu = perf_counter() - wall, process_time() - cpu
    named = {(alarm.node, alarm.gpu) for alarm in found.alarms}
    slow = {(f"node-{gpu // 8}", gpu % 8) for gpu in SLOW}
    return {
        "rows": float(fleet.values.size),
        "rows_absent": float(np.isnan(fleet.values).sum()),
        "seconds": wall,
        "cpu_seconds": cpu,
        "reading_seconds": read_wall,
        "reading_cpu_seconds": read_cpu,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "archive_megabytes": sum(one.stat().st_size for one in folder.rglob("*.parquet")) / 1e6,
        "state_megabytes": (folder / "state.npz").stat().st_size / 1e6,
        "slow_missed": float(len(slow - named)),
        "others_named": float(len(named - slow)),
        "coverage": found.coverage,
    }


def _fleet(times: np.ndarray, values: np.ndarray) -> TelemetryArrays:
    gpu = np.arange(GPUS)
    return TelemetryArrays(
        times, WATCHED, values, np.char.add("node-", (gpu // 8).astype(str)), _uuids(), gpu % 8,
        np.array(["stage 0, tensor part 0"] * GPUS),
    )  # fmt: skip


def _uuids() -> np.ndarray:
    return np.char.add("GPU-", np.arange(GPUS).astype(str))


def _ranks() -> pa.Table:
    rank = np.arange(GPUS, dtype=np.int32)
    zero = np.zeros(GPUS, dtype=np.int32)
    columns = {
        "rank": rank, "node": np.char.add("node-", (rank // 8).astype(str)), "gpu": rank % 8,
        "uuid": _uuids(), "local_rank": rank % 8, "dp": rank, "pp": zero, "tp": zero,
        "pod": pa.nulls(GPUS, pa.string()),
    }  # fmt: skip
    arrays = [pa.array(columns[one.name], type=one.dtype) for one in archive.RANKS]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(archive.RANKS))


def _samples(times: np.ndarray, values: np.ndarray) -> pa.Table:
    """Rows as a recorder gets them: scrape by scrape, node by node, metric by metric."""
    checks, metrics, gpus = values.shape
    nodes = -(-gpus // 8)
    padded = np.full((checks, metrics, nodes * 8), np.nan, dtype=np.float64)
    padded[:, :, :gpus] = values
    told = padded.reshape(checks, metrics, nodes, 8).transpose(0, 2, 1, 3)
    check, node, metric, gpu = np.indices(told.shape, dtype=np.int32).reshape(4, -1)
    there = np.flatnonzero(np.isfinite(told.reshape(-1)))
    # Every node is scraped at a moment of its own.
    moment = np.random.default_rng(0).uniform(0, 0.9 * PERIOD, nodes)
    moment[0] = 0

    def words(code: np.ndarray, names: list[str]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(code[there], pa.array(names)).cast(pa.string())

    columns = {
        "time": times[check[there]] + moment[node[there]],
        "node": words(node, [f"node-{one}" for one in range(nodes)]),
        "gpu": gpu[there],
        "rank": pa.nulls(len(there), pa.int32()),
        "metric": words(metric, NAMES),
        "labels": words(np.zeros_like(metric), [""]),
        "value": told.reshape(-1)[there],
    }
    arrays = [pa.array(columns[one.name], type=one.dtype) for one in archive.SAMPLES]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(archive.SAMPLES))
