"""What the roof writes into a run archive: run.json, ranks.parquet, truth.json.

The recorder writes samples, steps and operations (collector/recorder.py).
"""

import json
import platform
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lockstep.collector.contract import archive as contract
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.visible import masked, masked_words
from lockstep.collector.contract.whole_file import replacing, write_whole
from lockstep.workloads.faults.disturbances import Disturbance
from lockstep.workloads.faults.link import LINK_KINDS
from lockstep.workloads.faults.measure import Effect, effect, read_added
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.launch.launcher import Outcome
from lockstep.workloads.loop.resume import RESTORED
from lockstep.workloads.measure.process import wall_minus_monotonic_ns
from lockstep.workloads.measure.starting import STARTING
from lockstep.workloads.network.emulated import effects, needed
from lockstep.workloads.spec import RunSpec
from lockstep.workloads.tasks.registry import find

PROOFS = "faults"
"""Where ranks say what was done to them, until truth.json has it."""
LOGS = "logs"
"""Folder of the logs of ranks, collectors and links."""

Place = tuple[int, int, int]
"""(dp, pp, tp) of a rank."""


@dataclass(frozen=True, slots=True)
class Recording:
    """How well the run was recorded, and what was measured for it.

    Attributes:
        incomplete: What could not be written.
        peak_flops: FLOP/s of one core in matrix products; None = not measured.
        means: By which means the steps of each rank of somebody else's program became known.
        own_time_known: Whether own time of any step is known; steps tell of which. None = our own.
        ranks_ended: When no rank was there any more; None = not seen.
        places: (dp, pp, tp) as ranks of somebody else's program say; others stand by the layout.
    """

    failed_requests: int = 0
    lost_steps: int = 0
    incomplete: str = ""
    peak_flops: float | None = None
    means: Mapping[int, str] = field(default_factory=dict)
    own_time_known: bool | None = None
    ranks_ended: datetime | None = None
    places: Mapping[int, Place] = field(default_factory=dict)


def now() -> datetime:
    """Wall time, UTC."""
    return datetime.now(UTC)


def write_start(
    out: Path, spec: RunSpec, started: datetime, submitted: datetime | None = None
) -> None:
    """run.json without an end, and the faults as intended.

    Args:
        submitted: When a scheduler was asked for it; None = nobody says, or there was none.
    """
    write_so_far(out, spec, started, Recording(), submitted)
    _write_truth(out, spec, measured={})


def write_so_far(
    out: Path, spec: RunSpec, started: datetime, recording: Recording,
    submitted: datetime | None = None,
) -> None:  # fmt: skip
    """run.json of a run that goes on, with what is known of its steps and its layout by now.

    A launcher that is killed writes nothing more: what stands here is what readers have.
    """
    run = _run(spec, started, None, recording.places)
    if recording.peak_flops is not None:
        run["measured_peak_flops"] = recording.peak_flops
    more = {**_steps_known(recording), **_submitted(submitted)}
    _write_json(out / contract.RUN_FILE, {**run, **more})


def write_job(out: Path, spec: RunSpec, written: datetime) -> None:
    """All that is known of a run which somebody else will start: no end, no effect of a fault.

    Whether its nodes are emulated is null where no host file says it.
    """
    run = _run(spec, written, None)
    if not spec.hosts:
        run["emulated_nodes"] = run["clock"]["shared_monotonic_clock"] = None
    about = {"started_by": "another launcher", **_submitted(written)}
    _write_json(out / contract.RUN_FILE, {**run, **about})
    _write_truth(out, spec, measured={})
    write_ranks(out, spec)


def write_end(
    out: Path,
    spec: RunSpec,
    started: datetime,
    outcome: Outcome,
    recording: Recording,
    submitted: datetime | None = None,
) -> None:
    """run.json with how the run ended, and what the faults measurably did."""
    _write_truth(out, spec, _measure(out, spec))
    shutil.rmtree(out / PROOFS, ignore_errors=True)
    restored = _restored(out, spec)
    told = {"failed_requests": recording.failed_requests, "lost_steps": recording.lost_steps}
    run = {
        **_run(spec, started, outcome, recording.places),
        "measured_peak_flops": recording.peak_flops,
    }
    run |= _steps_known(recording)
    if recording.ranks_ended is not None:
        run |= {"ranks_ended": recording.ranks_ended.isoformat()}
    starting = _starting(out, spec)
    more = {**_submitted(submitted), **({"restored": restored} if restored else {}),
            **({"starting": starting} if starting else {})}  # fmt: skip
    _write_json(out / contract.RUN_FILE, {**run, **more, "recording": told})


def _steps_known(recording: Recording) -> dict[str, Any]:
    """By which means steps of somebody else's program are known, and whether own times are."""
    if recording.own_time_known is None:
        return {}
    means = {str(rank): word for rank, word in sorted(recording.means.items())}
    return {"means": means, "own_time_known": recording.own_time_known}


def _submitted(moment: datetime | None) -> dict[str, str]:
    return {} if moment is None else {"submitted": moment.isoformat()}


def _restored(out: Path, spec: RunSpec) -> dict[str, list[float]]:
    """Rank -> unix seconds between which it read its checkpoint, of the ranks that told."""
    found: dict[str, list[float]] = {}
    for rank in range(spec.layout.world):
        try:
            told = bounded_json.read(out / RESTORED / f"rank-{rank}.json")
            begin, end = float(told["begin"]), float(told["end"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if begin <= end:
            found[str(rank)] = [begin, end]
    shutil.rmtree(out / RESTORED, ignore_errors=True)
    return found


def _starting(out: Path, spec: RunSpec) -> dict[str, Any]:
    """Rank -> part of its start -> spans in unix seconds, of the ranks that told (StartPart)."""
    found: dict[str, Any] = {}
    for rank in range(spec.layout.world):
        with suppress(OSError, ValueError):
            told = bounded_json.read(out / STARTING / f"rank-{rank}.json")
            if isinstance(told, dict):
                found[str(rank)] = told
    shutil.rmtree(out / STARTING, ignore_errors=True)
    return found


def _run(
    spec: RunSpec, started: datetime, outcome: Outcome | None,
    places: Mapping[int, Place] = MappingProxyType({}),
) -> dict[str, Any]:  # fmt: skip
    _, clock_error = wall_minus_monotonic_ns()
    layout = spec.layout
    # As ranks.parquet has it.
    grid = [_place(spec, places, rank) for rank in range(layout.world)]
    dp, pp, tp = (1 + max(along) for along in zip(*grid, strict=True))
    return {
        "schema_version": contract.SCHEMA_VERSION,
        "run": spec.run,
        "workload": spec.workload,
        "labels": {"team": spec.team} if spec.team else {},
        "started": started.isoformat(),
        "ended": None if outcome is None else now().isoformat(),
        "outcome": None if outcome is None else _without_secrets(outcome),
        **({"name": spec.name} if spec.name else {}),
        "spec": {**spec.to_json(), "program": masked_words(spec.program)},
        "command": spec.command(faults=False, taken=find(spec.workload).options),
        "layout": {
            "world": layout.world, "nodes": layout.nodes,
            "ranks_per_node": layout.ranks_per_node,
            "dp": dp, "pp": pp, "tp": tp,
        },
        "seed": spec.seed,
        "versions": {
            "lockstep": version("lockstep-monitor"), "python": platform.python_version(),
            "torch": _version("torch"), "kernel": platform.release(),
        },
        "clock": {
            "offset_error_seconds": clock_error / 1e9, "shared_monotonic_clock": not spec.hosts,
        },
        "emulated_nodes": not spec.hosts,
        "emulated_network": spec.network == "namespaces" or needed(spec.faults),
        "emulated_devices": spec.pace,
        "device_noise": spec.device_noise if spec.pace else None,
        "simulated": ["gpu telemetry"] if spec.pace else [],
        **find(spec.workload).about(spec),
    }  # fmt: skip


def _without_secrets(outcome: Outcome) -> dict[str, Any]:
    """As JSON types; what ranks wrote last may hold an address with its password."""
    told = asdict(outcome) | {"reason": masked(outcome.reason)}
    told["raised"] = [{**one, "error": masked(one["error"])} for one in told["raised"]]
    return told


def _write_truth(out: Path, spec: RunSpec, measured: dict[int, Effect | None]) -> None:
    links = effects(out / LOGS)
    added = {rank: _added(out, rank) for _, rank in _injected(spec)}
    faults = [
        {
            **_truth(fault, spec, rank, measured.get(index)),
            "added": added[rank].get(fault.spec),
            "link": links.get(fault.spec),
            "proof": _proof(out, rank),
        }
        for index, (fault, rank) in enumerate(_injected(spec))
    ]
    _write_json(
        out / contract.TRUTH_FILE,
        {
            "schema_version": contract.SCHEMA_VERSION,
            "command": spec.command(faults=True, taken=find(spec.workload).options),
            "faults": faults,
            "disturbances": [_disturbance(each) for each in spec.disturbances],
        },
    )


def _truth(fault: Fault, spec: RunSpec, rank: int, measured: Effect | None) -> dict[str, Any]:
    return {
        "kind": fault.kind,
        "cause": fault.cause,
        "scope": "rank" if fault.node is None else "node",
        "rank": rank,
        "node": spec.node(rank),
        "from_step": fault.from_step,
        "to_step": fault.to_step,
        "shape": fault.shape,
        "factor_intended": fault.factor,
        "factor_measured": None if measured is None else measured.factor,
        "factor_interval": None if measured is None else [measured.low, measured.high],
        "factor_mean_intended": fault.factor_mean,
        "factor_mean_measured": None if measured is None else measured.mean,
        "measured_on": "wall time of the step" if fault.kind in LINK_KINDS else "own time",
        "peer": None if fault.peer is None else f"node-{fault.peer}",
        "xid": fault.xid,
        "spec": fault.spec,
        "pool": list(fault.pool),
    }


def _proof(out: Path, rank: int) -> Any:
    """What a rank says that its faults did: throttled time, collections, seconds slept."""
    try:
        return bounded_json.read(out / PROOFS / f"rank-{rank}.json")
    except (OSError, ValueError):  # a rank that died wrote none
        return None


def _added(out: Path, rank: int) -> dict[str, dict[str, list[float]]]:
    """Fault -> steps, and the seconds that it added to each, by the rank itself, however it ended.

    A quota and a link are the kernel's: what they add to a step the rank cannot tell.
    """
    try:
        return read_added(out / PROOFS / f"rank-{rank}.jsonl")
    except OSError:
        return {}


def _disturbance(disturbance: Disturbance) -> dict[str, Any]:
    told = {name: value for name, value in asdict(disturbance).items() if value is not None}
    return {**told, "cause": None}


def _injected(spec: RunSpec) -> list[tuple[Fault, int]]:
    """Every fault with every rank it is injected into, in order."""
    per_node = spec.layout.ranks_per_node
    return [(fault, rank) for fault in spec.faults for rank in fault.ranks(per_node)]


def _measure(out: Path, spec: RunSpec) -> dict[int, Effect | None]:
    """What each entry of `_injected` measurably did, by the recorded steps.

    A link has no time of its own: its effect is on the step.
    """
    import pyarrow.dataset as ds

    folder = out / contract.STEPS_FILE
    if not folder.exists() or not any(folder.iterdir()):
        return {}
    table = ds.dataset(folder, format="parquet").to_table(
        ["step", "rank", "own_seconds", "wall_seconds"]
    )
    steps, ranks, own, wall = (table[name].to_numpy() for name in table.column_names)
    return {
        index: effect(
            fault,
            steps[ranks == rank],
            (wall if fault.kind in LINK_KINDS else own)[ranks == rank],
        )
        for index, (fault, rank) in enumerate(_injected(spec))
        if fault.factor is not None or fault.link is not None
    }


def write_ranks(
    out: Path,
    spec: RunSpec,
    pods: Sequence[str] = (),
    gpus: Mapping[int, tuple[int | None, str]] = MappingProxyType({}),
    places: Mapping[int, Place] = MappingProxyType({}),
) -> None:
    """Who each rank is; whole or not at all.

    Args:
        pods: Of Kubernetes, one a node in their order; empty = none.
        gpus: Number on its node and uuid of each rank's real GPU, as far as they are known.
        places: As `Recording.places`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    for rank in range(spec.layout.world):
        dp, pp, tp = _place(spec, places, rank)
        local_rank = spec.layout.local_rank(rank)
        emulated = (local_rank, spec.gpu_uuid(rank)) if spec.pace else (None, None)
        gpu, uuid = gpus.get(rank, emulated)
        rows.append({
            "rank": rank, "node": spec.node(rank), "gpu": gpu, "uuid": uuid,
            "local_rank": local_rank, "dp": dp, "pp": pp, "tp": tp,
            "pod": pods[rank // spec.layout.ranks_per_node] if pods else None,
        })  # fmt: skip
    types = {"int32": pa.int32(), "string": pa.string()}
    schema = pa.schema([(column.name, types[column.dtype]) for column in contract.RANKS])
    with replacing(out / contract.RANKS_FILE) as file:
        pq.write_table(pa.Table.from_pylist(rows, schema), file)


def _place(spec: RunSpec, places: Mapping[int, Place], rank: int) -> Place:
    return places.get(rank) or spec.layout.coordinates(rank)


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _write_json(path: Path, value: dict[str, Any]) -> None:
    write_whole(path, json.dumps(value, indent=2) + "\n", mode=None)
