"""What the roof writes into a run archive: run.json, ranks.parquet, truth.json.

The recorder writes samples, steps and operations (collector/recorder.py).
"""

import json
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from collector.contract import archive as contract
from workloads.clocksync import wall_minus_monotonic_ns
from workloads.data.prepare import least_loss
from workloads.faults.measure import factor_measured
from workloads.faults.plan import Fault
from workloads.launchers import Outcome
from workloads.spec import RunSpec


@dataclass(frozen=True, slots=True)
class Recording:
    """How well the run was recorded, and what was measured for it.

    Attributes:
        incomplete: What could not be written.
        peak_flops: FLOP/s of one core in matrix products; None = not measured.
    """

    failed_requests: int = 0
    lost_steps: int = 0
    incomplete: str = ""
    peak_flops: float | None = None


def now() -> datetime:
    """Wall time, UTC."""
    return datetime.now(UTC)


def write_start(out: Path, spec: RunSpec, started: datetime) -> None:
    """run.json without an end, and the faults as intended."""
    _write_json(out / contract.RUN_FILE, _run(spec, started, None))
    _write_truth(out, spec, measured={})


def write_end(
    out: Path, spec: RunSpec, started: datetime, outcome: Outcome, recording: Recording
) -> None:
    """run.json with how the run ended, and what the faults measurably did."""
    _write_truth(out, spec, _measure(out, spec))
    told = {"failed_requests": recording.failed_requests, "lost_steps": recording.lost_steps}
    run = {**_run(spec, started, outcome), "measured_peak_flops": recording.peak_flops}
    _write_json(out / contract.RUN_FILE, {**run, "recording": told})


def _run(spec: RunSpec, started: datetime, outcome: Outcome | None) -> dict[str, Any]:
    _, clock_error = wall_minus_monotonic_ns()
    layout = spec.layout
    return {
        "schema_version": contract.SCHEMA_VERSION,
        "run": spec.run,
        "workload": spec.workload,
        "started": started.isoformat(),
        "ended": None if outcome is None else now().isoformat(),
        "outcome": None
        if outcome is None
        else {"ending": outcome.ending, "ranks": outcome.ranks, "reason": outcome.reason},
        "spec": spec.to_json(),
        "command": spec.command(faults=False),
        "layout": {
            "world": layout.world, "nodes": layout.nodes,
            "ranks_per_node": layout.ranks_per_node,
            "dp": layout.dp, "pp": layout.pp, "tp": layout.tp,
        },
        "seed": spec.seed,
        "versions": {
            "lockstep": version("lockstep-monitor"), "python": platform.python_version(),
            "torch": _version("torch"), "kernel": platform.release(),
        },
        "clock": {"offset_error_seconds": clock_error / 1e9, "shared_monotonic_clock": True},
        "emulated_nodes": True,
        "emulated_devices": spec.pace,
        "device_noise": spec.device_noise if spec.pace else None,
        "simulated": ["gpu telemetry"] if spec.pace else [],
        "formula": "megatron",
        "entropy_rate_nats": least_loss(spec),
    }  # fmt: skip


def _write_truth(out: Path, spec: RunSpec, measured: dict[int, float | None]) -> None:
    faults = [
        _truth(fault, spec, rank, measured.get(index))
        for index, (fault, rank) in enumerate(_injected(spec))
    ]
    _write_json(
        out / contract.TRUTH_FILE,
        {
            "schema_version": contract.SCHEMA_VERSION,
            "command": spec.command(faults=True),
            "faults": faults,
        },
    )


def _truth(fault: Fault, spec: RunSpec, rank: int, measured: float | None) -> dict[str, Any]:
    return {
        "kind": fault.kind,
        "cause": fault.cause,
        "scope": "rank" if fault.node is None else "node",
        "rank": rank,
        "node": spec.layout.node(rank),
        "from_step": fault.from_step,
        "to_step": fault.to_step,
        "shape": fault.shape,
        "factor_intended": fault.factor,
        "factor_measured": measured,
        "spec": fault.spec,
        "pool": list(fault.pool),
    }


def _injected(spec: RunSpec) -> list[tuple[Fault, int]]:
    """Every fault with every rank it is injected into, in order."""
    per_node = spec.layout.ranks_per_node
    return [(fault, rank) for fault in spec.faults for rank in fault.ranks(per_node)]


def _measure(out: Path, spec: RunSpec) -> dict[int, float | None]:
    """Measured factor of each entry of `_injected`, from the recorded steps."""
    import pyarrow.dataset as ds

    folder = out / contract.STEPS_FILE
    if not folder.exists() or not any(folder.iterdir()):
        return {}
    table = ds.dataset(folder, format="parquet").to_table(["step", "rank", "own_seconds"])
    steps, ranks, own = (table[name].to_numpy() for name in table.column_names)
    return {
        index: factor_measured(fault, steps[ranks == rank], own[ranks == rank])
        for index, (fault, rank) in enumerate(_injected(spec))
        if fault.factor is not None
    }


def write_ranks(out: Path, spec: RunSpec) -> None:
    """Who each rank is; whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    for rank in range(spec.layout.world):
        dp, pp, tp = spec.layout.coordinates(rank)
        local_rank = spec.layout.local_rank(rank)
        rows.append({
            "rank": rank, "node": spec.layout.node(rank), "gpu": local_rank if spec.pace else None,
            "uuid": spec.gpu_uuid(rank), "local_rank": local_rank, "dp": dp, "pp": pp, "tp": tp,
            "pod": None,
        })  # fmt: skip
    types = {"int32": pa.int32(), "string": pa.string()}
    schema = pa.schema([(column.name, types[column.dtype]) for column in contract.RANKS])
    temporary = out / f"{contract.RANKS_FILE}.new"
    pq.write_table(pa.Table.from_pylist(rows, schema), temporary)
    temporary.replace(out / contract.RANKS_FILE)


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _write_json(path: Path, value: dict[str, Any]) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(value, indent=2) + "\n")
    temporary.replace(path)
