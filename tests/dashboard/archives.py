"""Small archives of made-up runs, written in a moment, for every test of the dashboard.

`write(folder / "gpt-a", Made(slow=2))`; two seeds give two runs, the same seed the same bytes.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lockstep.collector.contract import archive
from lockstep.collector.recorder.parts import arrow_schema
from tests.dashboard import archive_tables

START = 1_795_000_000.0
"""Unix seconds at which the first step begins: 2026-11-18 11:06:40 UTC."""


@dataclass(frozen=True, slots=True)
class Made:
    """What is in an archive.

    Attributes:
        run: Its id; empty = made from the seed.
        node_names: In the place of `node-0 …`, for hostile names.
        slow: Rank that computes `factor` times as long from step `onset` on; its GPU is hot.
        spikes: (rank, step, factor): one step of one rank takes so much longer.
        xid: (rank, step, code) of an XID error.
        flap: (node, seconds since the start) at which its network link goes and comes.
        spare_gpus: GPUs of each node on which no rank runs.
        gap: (node, from, until): seconds since the start in which its scrapes failed.
        parts: Of each table; 1 = one file instead of a folder.
        ops, samples, verdict, gpus: Whether they are there.
        ended: Whether the run is over.
    """

    run: str = ""
    seed: int = 0
    node_names: tuple[str, ...] = ("node-0", "node-1")
    ranks_per_node: int = 2
    steps: int = 120
    step_seconds: float = 0.25
    scrape_seconds: float = 1.0
    start: float = START
    slow: int | None = None
    onset: int = 40
    factor: float = 1.5
    spikes: tuple[tuple[int, int, float], ...] = ()
    xid: tuple[int, int, int] | None = None
    flap: tuple[int, float] | None = None
    gap: tuple[int, float, float] | None = None
    checkpoint_every: int = 50
    spare_gpus: int = 0
    nvlinks: int = 2
    parts: int = 2
    ops: bool = True
    samples: bool = True
    verdict: bool = True
    gpus: bool = True
    ended: bool = True

    @property
    def nodes(self) -> int:
        """How many."""
        return len(self.node_names)

    @property
    def ranks(self) -> int:
        """How many; rank = replica."""
        return self.nodes * self.ranks_per_node

    @property
    def name(self) -> str:
        """The run's id."""
        return self.run or f"gpt-20261118T110640-{self.seed:04x}"


def write(folder: Path, made: Made | None = None) -> Path:
    """The archive in `folder`, which is made; returns it."""
    made = made or Made()
    folder.mkdir(parents=True, exist_ok=True)
    cells = archive_tables.steps(made)
    end = float((cells["start"] + cells["wall_seconds"])[-1, 0])
    _json(folder / archive.RUN_FILE, _meta(made, end))
    pq.write_table(_ranks(made), folder / archive.RANKS_FILE)
    _parts(folder / archive.STEPS_FILE, archive_tables.step_table(cells), made.parts)
    if made.samples:
        _parts(folder / archive.SAMPLES_FILE, archive_tables.samples(made, cells), made.parts)
    if made.ops:
        _parts(folder / archive.OPS_FILE, archive_tables.operations(made, cells), made.parts)
    if made.verdict:
        began = float(cells["start"][min(made.onset, made.steps - 1), 0])
        _json(folder / archive.VERDICT_FILE, verdict(made, began))
    return folder


def verdict(made: Made, began: float) -> dict[str, Any]:
    """docs/reference/verdict.md: the slow rank is named, or nobody."""
    told: dict[str, Any] = {
        "schema_version": 1, "run": made.name, "status": "healthy",
        "sentence": "No rank holds this run back.", "slowdown": 1.01,
        "slowdown_interval": [0.99, 1.03], "lost_gpu_hours": 0.0, "coverage": 1.0, "culprits": [],
        "anomalies": [], "hang": None, "structure": [], "what_if": {"method": "none", "fixes": []},
        "rejected": [], "alternatives": [], "missing": [], "provenance": ["emulated devices"],
    }  # fmt: skip
    if made.slow is None:
        return told
    node, gpu = divmod(made.slow, made.ranks_per_node)
    name = made.node_names[node]
    since = datetime.fromtimestamp(began, UTC).isoformat().replace("+00:00", "Z")
    heat = 'rate(lockstep_gpu_clock_event_seconds_total{reason="hw_thermal"}[1m])'
    culprit = {
        "scope": "rank", "rank": made.slow, "node": name, "gpu": gpu, "uuid": _uuid(made.slow),
        "dp": made.slow, "pp": 0, "tp": 0, "link": None, "from_step": made.onset, "to_step": None,
        "since": since, "slowdown": made.factor, "cause": "thermal", "confidence": 0.97,
        "tier": "page", "slowdown_interval": [made.factor - 0.03, made.factor + 0.03],
        "evidence": [
            {"for": True, "text": "the GPU was in thermal slowdown 90% of the time", "query": heat},
            {"for": False, "text": "the power limit was not lowered", "query": "power"},
        ],
    }  # fmt: skip
    gain = 1 - 1 / made.factor
    fix = {"remove": name, "gain": gain, "interval": [gain - 0.02, gain + 0.02]}
    what_if = {"method": "simulation", "S": made.factor, "fixes": [fix],
               "S_t": {"forward-compute": 1.2, "backward-compute": 1.3},
               "S_dp": {str(rank): made.factor if rank == made.slow else 1.0
                        for rank in range(made.ranks)},
               "S_pp": {"0": made.factor}, "M_W": 1.0, "M_S": 0.0}  # fmt: skip
    return told | {
        "status": "degraded", "slowdown": made.factor, "lost_gpu_hours": 0.004,
        "sentence": f"Rank {made.slow} ({name}, GPU {gpu}) is {made.factor:.2f}x slower than it"
                    f" should be from step {made.onset}: its GPU is too hot. Confidence in the"
                    " cause high.",
        "culprits": [culprit], "what_if": what_if,
        "anomalies": [{"node": name, "gpu": gpu, "uuid": _uuid(made.slow),
                       "metric": "lockstep_gpu_clock_hertz", "deviation": -14.8, "since": since,
                       "costs_time": True, "text": f"GPU {gpu} of {name}: SM clock 1320 MHz"}],
        "rejected": [{"rank": 0, "why": "slower for 3 steps only"}],
        "alternatives": [{"cause": "power", "confidence": 0.02}],
    }  # fmt: skip


def _meta(made: Made, end: float) -> dict[str, Any]:
    layout = {"world": made.ranks, "nodes": made.nodes, "ranks_per_node": made.ranks_per_node,
              "dp": made.ranks, "pp": 1, "tp": 1}  # fmt: skip
    training = {"model": "tiny", "learning_rate": 0.006}
    return {
        "schema_version": archive.SCHEMA_VERSION, "run": made.name, "workload": "gpt",
        "started": datetime.fromtimestamp(made.start - 1, UTC).isoformat(),
        "ended": datetime.fromtimestamp(end, UTC).isoformat() if made.ended else None,
        "outcome": {"ending": "finished", "ranks": [], "reason": ""} if made.ended else None,
        "spec": {"run": made.name, "workload": "gpt", "layout": layout, "steps": made.steps,
                 "seed": made.seed, "training": training, "launcher": "local", "pace": made.gpus,
                 "device": "cpu", "device_noise": 0.02, "device_seconds": 0.04},
        "command": f"lockstep run gpt --nodes {made.nodes} --steps {made.steps}",
        "layout": layout, "seed": made.seed,
        "versions": {"lockstep": "0.1.0", "python": "3.11.7", "torch": "2.13.0+cpu",
                     "kernel": "6.1.0"},
        "clock": {"offset_error_seconds": 1.04e-07, "shared_monotonic_clock": True},
        "emulated_nodes": True, "emulated_network": False, "emulated_devices": made.gpus,
        "device_noise": 0.02, "simulated": ["gpu telemetry"] if made.gpus else [],
        "formula": "megatron", "entropy_rate_nats": 2.3, "measured_peak_flops": 1e11,
        "recording": {"failed_requests": 0, "lost_steps": 0},
    }  # fmt: skip


def _ranks(made: Made) -> pa.Table:
    rows = []
    for rank in range(made.ranks):
        node, local = divmod(rank, made.ranks_per_node)
        rows.append({
            "rank": rank, "node": made.node_names[node], "gpu": local if made.gpus else None,
            "uuid": _uuid(rank) if made.gpus else None, "local_rank": local, "dp": rank, "pp": 0,
            "tp": 0, "pod": None,
        })  # fmt: skip
    return pa.Table.from_pylist(rows, arrow_schema(archive.RANKS))


def _uuid(rank: int) -> str:
    return f"GPU-{rank:08d}"


def _parts(path: Path, table: pa.Table, parts: int) -> None:
    if parts == 1:
        pq.write_table(table, path, compression="zstd")
        return
    path.mkdir()
    rows = -(-table.num_rows // parts)
    for number in range(parts):
        part = table.slice(number * rows, rows)
        pq.write_table(part, path / f"part-{number:06d}.parquet", compression="zstd")


def _json(path: Path, tree: dict[str, Any]) -> None:
    path.write_text(json.dumps(tree, indent=2) + "\n")
