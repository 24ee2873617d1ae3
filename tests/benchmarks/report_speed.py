"""`lockstep report` on an hour of 64 and of 512 ranks: steps of 5 s, scrapes of 15 s.

One GPU runs hot from the middle on. The archives have the columns and the metrics that a verdict
needs; a process of its own makes each report, imports included.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd

from lockstep.collector.contract import archive
from lockstep.collector.contract.words import PHASES

GPUS, STAGES = 8, 8
SECONDS, STEP, SCRAPE = 3600.0, 5.0, 15.0
BEGIN, HOT, FACTOR = 1_795_000_000.0, 37, 1.4
STEPS, SCRAPES = int(SECONDS / STEP), int(SECONDS / SCRAPE)
ONSET = STEPS // 2
SHARES = {"data": 0.02, "forward": 0.28, "backward": 0.55, "optimizer": 0.05}
SIZES = (64, 512)
GOALS = {
    "64 ranks: CPU seconds": 5.0, "64 ranks: page, MB": 1.0,
    "512 ranks: CPU seconds after the diagnosis": 5.0, "512 ranks: page, MB": 1.0,
}  # fmt: skip


def main() -> dict[str, float]:
    """Figures; GOALS has what they may be at most. CPU seconds are of a whole process."""
    figures: dict[str, float] = {}
    for ranks in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), ranks)
            told = subprocess.run(
                [sys.executable, "-m", __name__, folder], check=True, capture_output=True
            )
            for name, value in json.loads(told.stdout).items():
                figures[f"{ranks} ranks: {name}"] = value
    return figures


def measured(folder: Path) -> dict[str, float]:
    """Diagnoses an archive and writes its report, as `lockstep report` does."""
    from lockstep.diagnose import diagnosis

    begun = perf_counter()
    found = diagnosis.diagnose_archive(folder)
    diagnosed = process_time()
    diagnosis.write_reports(found, folder, diagnosis.FORMATS)
    return {
        "CPU seconds": process_time(),
        "CPU seconds after the diagnosis": process_time() - diagnosed,
        "wall seconds": perf_counter() - begun,
        "page, MB": (folder / "report.html").stat().st_size / 1e6,
        "Markdown, MB": (folder / "report.md").stat().st_size / 1e6,
        "JSON, MB": (folder / "report.json").stat().st_size / 1e6,
    }


def write(folder: Path, ranks: int) -> None:
    """The archive."""
    replicas = ranks // STAGES
    layout = {"world": ranks, "nodes": ranks // GPUS, "ranks_per_node": GPUS,
              "dp": replicas, "tp": 1, "pp": STAGES}  # fmt: skip
    meta = {"schema_version": archive.SCHEMA_VERSION, "run": "llm.train.0a1b2c3d",
            "layout": layout, "ended": BEGIN + SECONDS}  # fmt: skip
    (folder / archive.RUN_FILE).write_text(json.dumps(meta))
    rank = np.arange(ranks)
    pp, dp = np.divmod(rank, replicas)
    table = pd.DataFrame({
        "rank": rank, "node": _nodes(rank), "gpu": rank % GPUS, "uuid": [f"GPU-{r}" for r in rank],
        "local_rank": rank % GPUS, "dp": dp, "pp": pp, "tp": 0, "pod": "",
    })  # fmt: skip
    table.to_parquet(folder / archive.RANKS_FILE)
    steps, ends = _steps(ranks)
    steps.to_parquet(folder / archive.STEPS_FILE)
    pd.concat(_samples(ends, ranks), ignore_index=True).to_parquet(folder / archive.SAMPLES_FILE)


def _nodes(rank: np.ndarray) -> list[str]:
    return [f"gpu-node-{each // GPUS:03d}" for each in rank]


def _steps(ranks: int) -> tuple[pd.DataFrame, np.ndarray]:
    dice = np.random.default_rng(5)
    own = 0.9 * STEP * (1 + 0.01 * dice.standard_normal((STEPS, ranks)))
    own[ONSET:, HOT] *= FACTOR
    wall = own.max(axis=1) + 0.05 * STEP
    ends = BEGIN + np.cumsum(wall)
    step, rank = np.divmod(np.arange(STEPS * ranks), ranks)
    mine = own.ravel()
    frame = pd.DataFrame({
        "step": step, "rank": rank, "attempt": 0, "start": (ends - wall)[step],
        "wall_seconds": wall[step], "cpu_seconds": 0.4 * mine, "own_seconds": mine,
    })  # fmt: skip
    for phase in PHASES:
        frame[f"{phase}_seconds"] = SHARES.get(phase, 0.0) * mine
    frame["grad_sync_seconds"] = frame["wait_seconds"] = frame["wall_seconds"] - mine
    frame["other_seconds"] = (1 - sum(SHARES.values())) * mine
    loss = 2.0 + 3.0 * np.exp(-step / 200)
    told: dict[str, Any] = {"tags": "", "loss": loss, "samples": 4, "tokens": 4096, "flops": 1e14}
    return frame.assign(**told)[[column.name for column in archive.STEPS]], ends


def _samples(ends: np.ndarray, ranks: int) -> Iterator[pd.DataFrame]:
    time = BEGIN + SCRAPE * (1 + np.arange(SCRAPES))
    done = np.searchsorted(ends, time)
    at, rank = np.divmod(np.arange(SCRAPES * ranks), ranks)
    hot = (done[at] >= ONSET) & (rank == HOT)
    since = np.maximum(time[at] - ends[ONSET], 0.0) * hot

    def told(metric: str, labels: str, value: object, *, of_rank: bool = False) -> pd.DataFrame:
        frame = pd.DataFrame({
            "time": time[at], "node": pd.Categorical(_nodes(rank)), "metric": metric,
            "labels": labels, "value": value,
        })  # fmt: skip
        empty = pd.array([pd.NA] * len(at), dtype="Int32")
        frame["gpu"] = empty if of_rank else pd.array(rank % GPUS, dtype="Int32")
        frame["rank"] = pd.array(rank, dtype="Int32") if of_rank else empty
        return frame[[column.name for column in archive.SAMPLES]]

    yield told("up", "", 1.0)[rank % GPUS == 0].assign(gpu=pd.NA).astype({"gpu": "Int32"})
    yield told("lockstep_gpu_temperature_celsius", 'sensor="gpu"', np.where(hot, 92.0, 63.0))
    yield told("lockstep_gpu_clock_hertz", 'domain="sm"', np.where(hot, 1.3e9, 1.98e9))
    yield told("lockstep_gpu_power_watts", "", np.where(hot, 450.0, 620.0))
    for reason in ("hw_thermal", "sw_thermal", "sw_power_cap", "hw_slowdown", "hw_power_brake"):
        total = 0.9 * since * (reason == "hw_thermal")
        yield told("lockstep_gpu_clock_event_seconds_total", f'reason="{reason}"', total)
    for kind in ("corrected", "uncorrected"):
        yield told("lockstep_gpu_ecc_errors_total", f'counter="volatile",type="{kind}"', 0.0)
    yield told("lockstep_gpu_pcie_link_width", "", 16.0)
    yield told("lockstep_gpu_pcie_link_width_max", "", 16.0)
    yield told("lockstep_gpu_pcie_replay_total", "", 0.0)
    for kind in ("enqueued", "completed"):
        name = f"lockstep_train_{kind}_sequence"
        yield told(name, 'group="dp"', done[at].astype(float), of_rank=True)
    yield told("lockstep_rank_up", "", 1.0, of_rank=True)
    yield told("lockstep_train_heartbeat_age_seconds", "", 0.4, of_rank=True)
    for name in ("steps", "known_steps"):
        yield told(f"lockstep_train_{name}_total", "", done[at].astype(float), of_rank=True)
    yield told("lockstep_rank_run_queue_seconds_total", "", 0.01 * time[at] - BEGIN, of_rank=True)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measured(Path(sys.argv[1]))))
