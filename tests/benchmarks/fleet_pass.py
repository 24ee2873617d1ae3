"""One pass over 10,000 GPUs, 1 h at 15 s, 20 metrics: from 48 million values to alarms.

What is read: the values as one array, and the state of the hour before. FLEET_GPUS in the
environment makes the fleet smaller. Seconds are of the wall on up to two cores; the CPU of all
threads stands beside. Making the values is not counted.
"""

import os
import resource
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np

from lockstep.analyzer.hardware.sequential_test.false_alarms import Budget
from lockstep.analyzer.hardware.sequential_test.monitor import watch
from lockstep.analyzer.hardware.sequential_test.state import State, restore, save
from lockstep.analyzer.hardware.sequential_test.telemetry import MonitoredMetric, TelemetryArrays
from lockstep.collector.contract.metrics import METRICS
from tests.benchmarks.fleet_noise import Noise

GPUS = int(os.environ.get("FLEET_GPUS", "10000"))
PERIOD = 15.0
CHECKS = 240
PART_CHECKS = 2
SLOW = {17: (100, 1.10), GPUS // 2 + 3: (150, 1.15)}
"""GPU -> from which check of the hour, and how much slower."""
GOALS = {"seconds": 5.0, "peak_megabytes": 2000.0, "slow_missed": 0.0, "others_named": 0.0}
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
    """Two hours: the first becomes the state, the second what is looked at."""
    second = np.empty((CHECKS, len(WATCHED), GPUS))
    noise = Noise(GPUS, len(WATCHED), seed=20)
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
        second[begin - CHECKS : begin - CHECKS + PART_CHECKS] = np.round(values, 4)
    np.save(folder / "values.npy", second)
    save(state, folder / "state.npz")
    return {}


def one_pass(folder: Path) -> dict[str, float]:
    wall, cpu = perf_counter(), process_time()
    fleet = _fleet(PERIOD * np.arange(CHECKS, 2 * CHECKS), np.load(folder / "values.npy"))
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
