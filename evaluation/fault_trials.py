"""Every fault kind at every size, and every disturbance: the runs of `lockstep score faults`."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.collector.contract import archive as contract
from lockstep.collector.contract.words import FAULT_CAUSES, FaultKind
from lockstep.diagnose import diagnosis
from lockstep.workloads.faults import capabilities
from lockstep.workloads.faults.disturbances import Kind as DisturbanceKind
from lockstep.workloads.faults.kinds import BUILT, STOP_KINDS
from lockstep.workloads.faults.link import LINK_KINDS
from lockstep.workloads.faults.plan import Shape, parse

if TYPE_CHECKING:
    from lockstep.analyzer.shapes.run import Verdict
    from lockstep.workloads.faults.measure import Effect

FACTORS = (1.1, 1.3, 2.0)
SHAPED_KIND = FaultKind.COMPUTE
SHAPED_FACTOR = 1.5
RANK = 1
"""Where each fault is injected: with one rank a node, the node has the same number."""
FROM_RATIO = 0.4
"""Of the steps, those before a fault: they show the healthy speed."""
FATAL_XID = 79
TOLERANCE = 0.1
"""How far a measured factor may be from the one asked for, as a ratio of it."""


@dataclass(frozen=True, slots=True)
class FaultSetting:
    """What all runs have in common."""

    nodes: int
    steps: int
    pace: bool
    device_noise: float
    seed: int

    @property
    def name(self) -> str:
        """Folder of its archives."""
        devices = f"noise-{self.device_noise:g}" if self.pace else "unpaced"
        return f"faults-{devices}-nodes-{self.nodes}-steps-{self.steps}-seed-{self.seed}"


@dataclass(frozen=True, slots=True)
class FaultTrial:
    """One run: with a fault, or with a disturbance that nobody is to blame for.

    Attributes:
        options: Words of `lockstep run` that it needs beside those of the setting.
    """

    name: str
    kind: str
    fault: str | None = None
    disturbance: str | None = None
    options: tuple[str, ...] = ()


def fault_trials(setting: FaultSetting) -> tuple[list[FaultTrial], dict[str, str]]:
    """All runs that this machine can do, and kind -> reason of the others."""
    refused = {
        kind.value: reason for kind, reason in capabilities.refused(pace=setting.pace).items()
    }
    wanted = [each for kind in BUILT for each in _of_kind(kind, setting)]
    wanted += _shaped(setting)
    trials = [each for each in wanted if each.kind not in refused]
    return [*trials, *_disturbed(setting, refused)], refused


def _of_kind(kind: FaultKind, setting: FaultSetting) -> Iterable[FaultTrial]:
    where = f"{kind}:{'node' if kind in LINK_KINDS else 'rank'}={RANK},from={_begin(setting)}"
    if kind in STOP_KINDS:
        yield FaultTrial(kind.value, kind.value, where)
        return
    for factor in FACTORS:
        yield FaultTrial(f"{kind}-{factor:g}", kind.value, f"{where},factor={factor:g}")
    if kind is FaultKind.XID:
        yield FaultTrial(f"{kind}-fatal", kind.value, f"{where},xid={FATAL_XID}")


def _shaped(setting: FaultSetting) -> list[FaultTrial]:
    begin = _begin(setting)
    where = f"{SHAPED_KIND}:rank={RANK},from={begin},factor={SHAPED_FACTOR:g}"
    return [
        FaultTrial(f"{SHAPED_KIND}-{shape}", SHAPED_KIND.value, f"{where},shape={shape}")
        for shape in Shape
        if shape is not Shape.CONSTANT
    ]


def _disturbed(setting: FaultSetting, refused: dict[str, str]) -> list[FaultTrial]:
    trials = [FaultTrial("healthy", "healthy")]
    for kind in DisturbanceKind:
        options: tuple[str, ...] = ()
        if kind is DisturbanceKind.STAGE:
            # The usual model has two layers; more stages need a deeper one.
            options = (
                "--pp",
                str(setting.nodes),
                *(("--model", "deep") if setting.nodes > 2 else ()),
            )
        elif kind is DisturbanceKind.SEQUENCES:
            options = ("--micro-batches", "4")
        if setting.pace or kind in (
            DisturbanceKind.EVAL, DisturbanceKind.CHECKPOINT, DisturbanceKind.GC,
        ):  # fmt: skip
            trials.append(FaultTrial(f"disturb-{kind}", kind.value, None, kind.value, options))
        else:
            refused[f"disturb-{kind}"] = f"{kind} needs emulated devices: leave out --pace off"
    return trials


def _begin(setting: FaultSetting) -> int:
    return round(FROM_RATIO * setting.steps)


def command(setting: FaultSetting, trial: FaultTrial, archive: Path) -> list[str]:
    """The words that run a trial in a process of its own."""
    words = [sys.executable, "-m", "lockstep", "run", "gpt", "--no-verdict", "--out", str(archive)]
    words += ["--nodes", str(setting.nodes), "--steps", str(setting.steps)]
    words += ["--seed", str(setting.seed), "--pace", "on" if setting.pace else "off"]
    words += ["--device-noise", f"{setting.device_noise:g}", *trial.options]
    if trial.fault is not None:
        words += ["--fault", trial.fault]
    if trial.disturbance is not None:
        words += ["--disturb", trial.disturbance]
    return words


def judge(setting: FaultSetting, trial: FaultTrial, archive: Path) -> dict[str, Any]:
    """Measures and diagnoses a trial's archive: one line of the results.

    Raises:
        CommandError: 65, the archive cannot be read.
    """
    verdict = diagnosis.diagnose_archive(archive).verdict
    diagnosis.write_verdict(verdict, archive)
    return {
        "setting": setting.name,
        "trial": trial.name,
        "kind": trial.kind,
        "fault": trial.fault,
        "disturbance": trial.disturbance,
        **_effect(setting, trial, archive),
        **_named(trial, verdict),
    }


def _effect(setting: FaultSetting, trial: FaultTrial, archive: Path) -> dict[str, Any]:
    """What was asked for and what was measured; None where the fault stops the rank."""
    import pyarrow.dataset as ds

    from lockstep.workloads.faults.measure import effect

    nothing = dict.fromkeys(("asked", "measured", "interval", "within", "why"))
    if trial.fault is None:
        return nothing
    fault = parse(
        trial.fault, nodes=setting.nodes, ranks_per_node=1, steps=setting.steps,
        available=dict.fromkeys(BUILT, ""),
    )  # fmt: skip
    if fault.factor is None:
        return {**nothing, "why": "it stops the rank, and has no size"}
    # A link has no own time: the step's wall time is what it lengthens.
    seconds = "wall_seconds" if fault.kind in LINK_KINDS else "own_seconds"
    table = ds.dataset(archive / contract.STEPS_FILE, format="parquet").to_table(
        ["step", "rank", seconds]
    )
    steps, ranks, times = (table[name].to_numpy() for name in table.column_names)
    found = effect(fault, steps[ranks == RANK], times[ranks == RANK])
    if found is None:
        unseen = "no step before it or during it was recorded"
        return {**nothing, "asked": fault.factor, "within": False, "why": unseen}
    why = _why_not(fault.factor, found)
    return {
        "asked": fault.factor,
        "measured": found.factor,
        "interval": [found.low, found.high],
        "within": why is None,
        "why": why,
    }


def _why_not(asked: float, effect: "Effect") -> str | None:
    """Why an effect is not what was asked; None where it is."""
    if effect.low <= 1.0:
        return "lost in the noise of this machine: the interval includes 1"
    off = effect.factor / asked - 1.0
    if abs(off) <= TOLERANCE:
        return None
    spread = "" if effect.low <= asked <= effect.high else ", outside its own interval"
    return f"{off:+.0%} off{spread}: other load on this machine, or too few steps to correct"


def _named(trial: FaultTrial, verdict: "Verdict") -> dict[str, Any]:
    """Whom the verdict names, and whether that is right: nobody, without a fault."""
    named = [{"rank": each.rank, "node": each.node or each.link, "cause": each.cause}
             for each in verdict.culprits]  # fmt: skip
    if trial.fault is None:
        return {"named": named, "cause": None, "rank_right": not named, "cause_right": None}
    cause = FAULT_CAUSES[FaultKind(trial.kind)].value
    node = f"node-{RANK}"
    return {
        "named": named,
        "cause": cause,
        "rank_right": bool(named) and all(node in str(each["node"]) for each in named),
        "cause_right": bool(named) and all(each["cause"] == cause for each in named),
    }


def summary(lines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts over all lines."""
    lines = list(lines)
    sized = [line for line in lines if line["asked"] is not None]
    faults = [line for line in lines if line["fault"] is not None]
    benign = [line for line in lines if line["fault"] is None]

    def count(over: list[Mapping[str, Any]], key: str) -> dict[str, int]:
        return {"count": sum(bool(line[key]) for line in over), "of": len(over)}

    return {
        "within_tolerance": count(sized, "within"),
        "rank_right": count(faults, "rank_right"),
        "cause_right": count(faults, "cause_right"),
        "nobody_blamed": count(benign, "rank_right"),
    }
