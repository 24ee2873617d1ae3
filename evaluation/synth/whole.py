"""A fleet -> the run that it would have left, and its truth."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.read.ranks import as_ranks_number
from lockstep.analyzer.shapes.run import RankInfo, Run
from lockstep.analyzer.shapes.windows import from_samples, from_steps
from lockstep.collector.contract import archive, metrics
from lockstep.collector.contract.metrics import METRICS, Kind
from lockstep.collector.contract.words import PHASES
from lockstep.evaluation.synth.clocks import clocks
from lockstep.evaluation.synth.fleet import (
    GPUS_PER_NODE,
    Defect,
    Difficulty,
    Fault,
    Resolution,
    Source,
    SyntheticFleet,
    Telling,
)
from lockstep.evaluation.synth.gpu_series import error_blocks, gpu_blocks
from lockstep.evaluation.synth.host_series import host_blocks
from lockstep.evaluation.synth.scrapes import About, Block, Scrapes, frame, scrapes
from lockstep.evaluation.synth.times import Times, stage_of, times
from lockstep.evaluation.synth.training_series import (
    FLOPS_A_TOKEN,
    SAMPLES,
    TOKENS,
    stop_blocks,
    training_blocks,
    without_the_dead,
)
from lockstep.evaluation.synth.untidy import clock_errors, driver_numbers, failed_scrapes
from lockstep.evaluation.synth.variant import VARIANTS

SOURCES = ("rank_ring", "nvml", "xid", "procfs")


NODES_A_PART = 16
"""Of a run that is made in parts: 128 ranks have some ten thousand samples a scrape."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A run with what was injected into it.

    Attributes:
        run: As a loader gives it.
        truth: Entries as in truth.json's `faults`; none = healthy.
        node_hours: Nodes times hours of run time.
    """

    run: Run
    truth: tuple[dict[str, Any], ...]
    node_hours: float


@dataclass(frozen=True, slots=True)
class Streamed:
    """The same run, its tables in parts: of 2,048 ranks the whole would not fit into memory.

    Attributes:
        meta: run.json.
        ranks: As a loader gives them.
        steps: Parts of steps.parquet (contract.archive.STEPS).
        samples: Parts of samples.parquet (contract.archive.SAMPLES), each of some nodes.
        truth: As in Labelled.
    """

    meta: dict[str, Any]
    ranks: tuple[RankInfo, ...]
    steps: Iterator[pd.DataFrame]
    samples: Iterator[pd.DataFrame]
    truth: tuple[dict[str, Any], ...]


def labelled(fleet: SyntheticFleet) -> Labelled:
    """The run; the same fleet gives the same run."""
    dice = np.random.default_rng(fleet.seed)
    made, seen, blocks = _made(fleet, dice)
    samples = _samples(fleet, blocks, seen, dice)
    by_step = fleet.resolution is Resolution.STEP
    windows = from_steps(_steps(fleet, made, seen)) if by_step else from_samples(samples)
    run = Run(
        name=f"synthetic-{fleet.seed}",
        meta=_meta(fleet) if by_step else {},
        ranks=_ranks(fleet),
        windows=windows,
        samples=samples,
        ops=None,
    )
    hours = float(seen.end[-1] - seen.end[0]) / 3600.0 if len(seen.end) else 0.0
    return Labelled(run, _truth(fleet, made), hours * fleet.nodes)


def streamed(fleet: SyntheticFleet) -> Streamed:
    """The run of `labelled`, as an archive of its steps and samples."""
    dice = np.random.default_rng(fleet.seed)
    made, seen, blocks = _made(fleet, dice)
    parts = [range(first, min(first + NODES_A_PART, fleet.nodes))
             for first in range(0, fleet.nodes, NODES_A_PART)]  # fmt: skip
    return Streamed(
        meta=_meta(fleet),
        ranks=_ranks(fleet),
        steps=(_steps(fleet, made, seen, nodes) for nodes in parts),
        samples=(_samples(fleet, blocks, seen, deepcopy(dice), nodes) for nodes in parts),
        truth=_truth(fleet, made),
    )


def _made(fleet: SyntheticFleet, dice: np.random.Generator) -> tuple[Times, Scrapes, list[Block]]:
    variant = VARIANTS[fleet.variant]
    made = times(fleet, dice)
    seen = scrapes(fleet, made, dice)
    state = clocks(fleet, variant, made, seen, dice)
    blocks = [
        Block("up", "", About.NODE, np.array([[1.0]])),
        *(Block(metrics.SOURCE_UP.name, f'source="{s}"', About.NODE, np.array([[1.0]]))
          for s in SOURCES),
        *training_blocks(fleet, made, seen, dice),
        *stop_blocks(fleet, list(made.by_group), made.strengths, seen, dice),
        *gpu_blocks(fleet, variant, made, seen, state, dice),
        *error_blocks(fleet, variant, made, seen, dice),
        *host_blocks(fleet, variant, made, seen, dice),
    ]  # fmt: skip
    return made, seen, without_the_dead(fleet, blocks, seen)


def _samples(
    fleet: SyntheticFleet, blocks: list[Block], seen: Scrapes, dice: np.random.Generator,
    nodes: range | None = None,
) -> pd.DataFrame:  # fmt: skip
    span = float(seen.time.min()), float(seen.time.max())
    told = frame(blocks, seen, nodes)
    untidy = untidied(fleet, with_defects(fleet, told, span, dice), span)
    return as_ranks_number(untidy, _ranks(fleet))


def _truth(fleet: SyntheticFleet, made: Times) -> tuple[dict[str, Any], ...]:
    return tuple(
        _fault_truth(fault, effect)
        for fault, effect in zip(fleet.faults, made.effects, strict=True)
    )


def _ranks(fleet: SyntheticFleet) -> tuple[RankInfo, ...]:
    stage = stage_of(fleet)
    return tuple(
        RankInfo(
            rank=rank, node=f"node-{rank // GPUS_PER_NODE}", gpu=rank % GPUS_PER_NODE,
            uuid=uuid_of(fleet, rank), local_rank=rank % GPUS_PER_NODE,
            dp=rank // fleet.tp % fleet.dp, pp=int(stage[rank]), tp=rank % fleet.tp,
        )
        for rank in range(fleet.world)
    )  # fmt: skip


def _steps(
    fleet: SyntheticFleet, made: Times, seen: Scrapes, nodes: range | None = None
) -> pd.DataFrame:
    """contract.archive.STEPS, of the ranks of some nodes or of all."""
    count, world = made.own.shape
    own = made.own.copy()
    own[:, list(fleet.untimed)] = np.nan
    mine = np.arange(world)
    if nodes is not None:
        mine = np.flatnonzero(np.isin(seen.node_of, np.array(nodes)))

    def flat(cells: Any) -> Any:
        return np.broadcast_to(cells, (count, world))[:, mine].ravel()

    columns = {
        "step": flat(np.arange(count)[:, None]),
        "rank": flat(np.arange(world)),
        "attempt": flat(0),
        "start": flat((seen.end - made.wall)[:, None] + clock_errors(fleet)[seen.node_of]),
        "wall_seconds": flat(made.wall[:, None]),
        "cpu_seconds": flat(made.cpu),
        "own_seconds": flat(own),
        **{f"{phase}_seconds": flat(made.by_phase[phase]) for phase in PHASES},
        "tags": flat(made.tags[:, None]),
        "loss": flat(np.nan),
        "samples": flat(SAMPLES),
        "tokens": flat(TOKENS * made.work),
        "flops": flat(FLOPS_A_TOKEN * TOKENS * made.work),
    }
    return pd.DataFrame(columns)


def _meta(fleet: SyntheticFleet) -> dict[str, Any]:
    told: dict[str, Any] = {
        "schema_version": archive.SCHEMA_VERSION,
        "run": f"synthetic-{fleet.seed}",
        "layout": {
            "world": fleet.world, "nodes": fleet.nodes, "ranks_per_node": GPUS_PER_NODE,
            "dp": fleet.dp, "pp": fleet.pp, "tp": fleet.tp,
        },
        "simulated": ["everything"],
    }  # fmt: skip
    if any(fault.stops for fault in fleet.faults):
        return told
    return told | {"outcome": {"ending": "finished"}}


def _fault_truth(fault: Fault, effect: float | None) -> dict[str, Any]:
    stops = fault.stops
    return {
        "kind": fault.cause.value,
        "form": fault.form,
        "cause": fault.label.value,
        "scope": "node" if fault.of_node else "rank",
        "rank": None if fault.of_node else fault.place,
        "node": f"node-{fault.place // GPUS_PER_NODE}",
        "from_step": fault.from_step,
        "to_step": fault.to_step,
        "shape": fault.shape.value,
        "telling": fault.telling.value,
        "factor_intended": None if stops else fault.factor,
        "factor_measured": effect,
    }


SOURCE_METRICS: Mapping[Source, tuple[str, ...]] = {
    Source.GPU_STATE: (
        "lockstep_gpu_temperature", "lockstep_gpu_power", "lockstep_gpu_clock",
        "lockstep_gpu_energy", "lockstep_gpu_utilization", "lockstep_gpu_sm_active",
    ),
    Source.GPU_ERRORS: (
        metrics.GPU_ECC_ERRORS.name, metrics.GPU_REMAPPED_ROWS.name,
        metrics.GPU_ROW_REMAP_PENDING.name, metrics.GPU_ROW_REMAP_FAILED.name,
    ),
    Source.XID: ("lockstep_gpu_xid",),
    Source.PCIE: ("lockstep_gpu_pcie",),
    Source.NVLINK: ("lockstep_gpu_nvlink",),
    Source.HOST: (
        metrics.RANK_THROTTLED.name, metrics.RANK_RUN_QUEUE.name, metrics.PRESSURE.name,
        metrics.HOST_CPUS.name,
    ),
    Source.NETWORK: ("lockstep_net_", "lockstep_ib_", "lockstep_tcp_"),
}  # fmt: skip
"""Beginnings of the names of what each tells."""


def untidied(
    fleet: SyntheticFleet, samples: pd.DataFrame, span: tuple[float, float]
) -> pd.DataFrame:
    """The samples as a monitor has them whose scrapes fail, clocks are wrong and sources lack.

    Where the driver numbers GPUs in its own way, there is a column `uuid` beside its number.
    """
    if not fleet.difficulties:
        return samples
    node = samples["node"].str.removeprefix("node-").to_numpy(dtype=np.int64)
    time = samples["time"].to_numpy(dtype=float)
    metric = samples["metric"]
    lost = np.zeros(len(samples), dtype=bool)
    for where, source in fleet.lacking:
        lost |= (node == where) & metric.str.startswith(SOURCE_METRICS[source]).to_numpy(dtype=bool)
    failed = failed_scrapes(fleet, time, node, span)
    answered = (metric == "up").to_numpy(dtype=bool)
    value = samples["value"].to_numpy(dtype=float).copy()
    value[failed & answered] = 0.0
    ahead = clock_errors(fleet)[node]
    moments = (metric == metrics.GPU_XID_LAST.name).to_numpy(dtype=bool)
    value[moments] += ahead[moments]
    made = samples.assign(value=value, time=time + ahead)
    if fleet.has(Difficulty.GPU_NUMBERS):
        gpu = samples["gpu"].to_numpy(dtype=float, na_value=np.nan)
        there = np.isfinite(gpu)
        rank = node * GPUS_PER_NODE + np.where(there, gpu, 0.0).astype(np.int64)
        index = pd.array(np.where(there, driver_numbers(fleet)[rank], -1), dtype="Int32")
        uuid = np.array([uuid_of(fleet, each) for each in range(fleet.world)], dtype=object)
        named = np.where(there, uuid[rank], np.array([None], dtype=object))
        made = made.assign(gpu=index, uuid=named)
        made["gpu"] = made["gpu"].mask(made["gpu"] < 0)
    return made[~lost & (~failed | answered)].reset_index(drop=True)


def uuid_of(fleet: SyntheticFleet, rank: int) -> str:
    """Of the rank's GPU."""
    return f"SYN-{fleet.seed}-{rank}"


GAP_SECONDS = (90.0, 300.0)
TRAINING = ("lockstep_train_", "lockstep_rank_up", "lockstep_rank_info")
NETWORK = ("lockstep_net_", "lockstep_ib_", "lockstep_tcp_")


def with_defects(
    fleet: SyntheticFleet,
    samples: pd.DataFrame,
    span: tuple[float, float],
    dice: np.random.Generator,
) -> pd.DataFrame:
    """The samples that a monitor with these defects would have; `span` is of all scrapes."""
    node = samples["node"].str.removeprefix("node-").to_numpy(dtype=np.int64)
    time = samples["time"].to_numpy(dtype=float)
    metric = samples["metric"]
    training = metric.str.startswith(TRAINING).to_numpy(dtype=bool)
    answered = (metric == "up").to_numpy(dtype=bool)
    hardware = ~training & ~answered
    lost = np.zeros(len(samples), dtype=bool)
    failed = lost.copy()
    for fault in fleet.faults:
        if fault.telling is Telling.MISSING:
            lost |= hardware & (node == fault.place // GPUS_PER_NODE)
    blamed = {fault.place // GPUS_PER_NODE for fault in fleet.faults}
    others = np.array([n for n in range(fleet.nodes) if n not in blamed], dtype=np.int64)
    if Defect.GAP in fleet.defects:
        begin = dice.uniform(*span)
        inside = (time >= begin) & (time < begin + dice.uniform(*GAP_SECONDS))
        failed |= inside & (node == dice.integers(fleet.nodes))
    if Defect.SOURCE in fleet.defects and others.size:
        of_gpu = samples["gpu"].notna().to_numpy(dtype=bool)
        of_network = metric.str.startswith(NETWORK).to_numpy(dtype=bool)
        lost |= (of_gpu if dice.random() < 0.5 else of_network) & (node == dice.choice(others))
    if Defect.SILENT in fleet.defects and others.size:
        silent = dice.choice(others, min(fleet.nodes // 2, others.size), replace=False)
        failed |= np.isin(node, silent) & (time >= (span[0] + span[1]) / 2)
    value = samples["value"].to_numpy(dtype=float).copy()
    value[failed & answered] = 0.0
    if Defect.RESET in fleet.defects:
        mine = hardware & (node == dice.integers(fleet.nodes)) & (time >= dice.uniform(*span))
        value = _reset(samples, value, mine)
    # A failed scrape leaves `up` 0 and nothing else.
    keep = ~lost & (~failed | answered)
    return samples.assign(value=value)[keep].reset_index(drop=True)


def _reset(
    samples: pd.DataFrame, value: NDArray[np.float64], mine: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Counters of hardware begin at 0 again, as after a driver reload."""
    counts = samples["metric"].map({n: m.kind is Kind.COUNTER for n, m in METRICS.items()})
    begin = mine & counts.fillna(False).to_numpy(dtype=bool)
    if not begin.any():
        return value
    keys = ["metric", "labels", "gpu", "rank"]
    first = samples[begin].assign(value=value[begin]).groupby(keys, dropna=False)["value"]
    made = value.copy()
    made[begin] = value[begin] - first.transform("min").to_numpy(dtype=float)
    return made
