"""Findings of known causes, also as other fleets would tell them: what a fit learns from."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lockstep.analyzer.causes.cause_spec import MAY, MUST, Expectation
from lockstep.analyzer.causes.cause_weights import possible
from lockstep.analyzer.causes.registry import SPECS
from lockstep.analyzer.causes.symptoms import table as symptoms
from lockstep.analyzer.shapes.run import Finding, Grid
from lockstep.analyzer.shapes.wording import ENDS
from lockstep.analyzer.stats.before_after import has_gpu
from lockstep.analyzer.stats.changepoint import column_medians
from lockstep.analyzer.stats.peer_groups import columns_by
from lockstep.analyzer.stragglers.confidence import HEAVY
from lockstep.analyzer.stragglers.detectors.stage_levels import as_heavier
from lockstep.analyzer.stragglers.imbalance import node_of
from lockstep.analyzer.verdict.case import accuses
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.collector.contract.words import Cause

UNKNOWN, WELL = Cause.UNKNOWN.value, "well"
PHASES = "phases"
SOURCES: Mapping[str, tuple[str, ...]] = {
    "GPU state": ("thermal throttling", "power throttling", "lower clock", "heat",
                  "power at its cap", "idle GPU", "contradiction"),
    "clock events": ("thermal throttling", "power throttling"),
    "GPU errors": ("memory errors",),
    "driver log": ("XID", "XID of memory", "XID of NVLink", "XID of PCIe"),
    "PCIe": ("PCIe trouble",),
    "NVLink": ("NVLink trouble",),
    "host": ("no processor", "pressure"),
    "CPU time": ("more CPU time", "excess on the CPU"),
    "collector": ("garbage collection",),
    PHASES: ("excess in compute", "excess in data", "excess in gradients",
               "excess in checkpoints", "excess elsewhere"),
    "versions": ("other software", "mates as fast", "software everywhere"),
    "network": ("lossy link", "full link", "more bytes", "busy hosts"),
}  # fmt: skip
"""What a fleet may lack together -> the symptoms that are missing then."""
GPU_ONLY = frozenset(spec.name for spec in symptoms.SYMPTOMS if spec.of_gpu)
NO_GPU = "no GPU"
COINCIDENCES = ("memory errors", "XID", "PCIe trouble", "NVLink trouble", "other software")
COLLECTED, COINCIDENT, UNSHOWN, CONTRADICTED, GPULESS, ON_THE_CPU = 0.5, 0.3, 0.4, 0.2, 0.3, 0.5
"""Shares of copies that differ from our fleets in one way; the last is of what has no GPU, where
the processor is what computes."""
XID_OF = {"memory errors": "XID of memory", "NVLink trouble": "XID of NVLink"}
NOT_COLLECTED = 0.3
"""Of what looks like garbage collection, where it is timed, and was something else."""
LOGGED = 0.5
"""Of coincidences that the driver logs as well."""
LACKED, UNNAMED = 0.2, 0.4
"""Of copies that lack a source, each for itself; programs of others seldom name their phases."""


@dataclass(frozen=True, slots=True)
class Example:
    """A finding whose cause is known.

    Attributes:
        cause: Its word; "unknown" where the telemetry does not tell, "well" of a place without
            fault.
        kind: Of the finding.
        gpu: Whether the rank has one.
        states: state -> share of the node's ranks, or 1, of which it is so.
    """

    cause: str
    kind: str
    gpu: bool
    states: Mapping[str, float]


def examples(diagnosis: Diagnosis, truths: Sequence[Mapping[str, Any]]) -> Iterator[Example]:
    """One of each accused place that is a fault's; a whole node is one."""
    grid = diagnosis.grid
    places: dict[tuple[str, object], list[Finding]] = {}
    for finding in diagnosis.findings:
        if finding.kind == HEAVY:  # whichever the table that is fitted makes of it
            finding = replace(finding, kind=symptoms.SLOW)
        if accuses(finding):
            rank = finding.text if finding.rank is None else finding.rank
            places.setdefault((finding.kind, node_of(finding) or rank), []).append(finding)
    for (kind, _), found in places.items():
        truth = next((each for each in truths if _is_of(grid, found[0], each)), None)
        gpu = has_gpu(grid, found[0].rank)
        if truth is None or not can_be(truth["cause"], kind, gpu=gpu):
            continue
        told = [symptoms.measured(grid, one) for one in found]
        yield Example(truth["cause"], kind, gpu, symptoms.states_of(grid, found, told))


def background(grid: Grid, truths: Sequence[Mapping[str, Any]]) -> Iterator[Example]:
    """What is so of places that are well, if somebody took them for slow; none of a single node.

    Of the nodes without fault the one that takes the longest, from the first step on, and of its
    ranks the one that does, from the middle of the run on. Not told of it is a difference of two
    places that is why the other one is slow.
    """
    mirrored = {
        f"{name}: mild"
        for truth in truths
        for name in _own(truth["cause"], (MUST,))
        if symptoms.BY_NAME[name].mutual
    }
    nodes = columns_by(grid, lambda info: info.node)
    ill = {str(end) for truth in truths for end in str(truth["node"]).split(ENDS)}
    own = column_medians(grid.time["own"][~grid.masked])
    well = {node: mine for node, mine in nodes.items() if node not in ill}
    well = {node: mine for node, mine in well.items() if np.isfinite(own[mine]).any()}
    if not well or len(nodes) < 2:
        return
    node, mine = max(well.items(), key=lambda each: float(np.nanmedian(own[each[1]])))
    peers = np.setdiff1d(np.arange(len(grid.ranks)), mine)
    taken = [as_heavier(grid, node, column, peers, 0.0, 0.0) for column in mine.tolist()]
    taken = [replace(one, kind=symptoms.SLOW) for one in taken]
    one = taken[int(np.nanargmax(own[mine]))]
    late = replace(one, first=len(grid.start) // 2, details={**one.details, "node": None})
    for place in (taken, [late]):
        told = [symptoms.measured(grid, one) for one in place]
        every = symptoms.states_of(grid, place, told).items()
        states = {state: share for state, share in every if state not in mirrored}
        yield Example(WELL, symptoms.SLOW, has_gpu(grid, place[0].rank), states)


def can_be(cause: str, kind: str, *, gpu: bool) -> bool:
    """Whether a finding of a kind, on a node with a GPU or without, can have a cause.

    Raises:
        KeyError: There is no such cause.
    """
    return cause == UNKNOWN or possible(SPECS[cause], kind, gpu=gpu)


def _is_of(grid: Grid, finding: Finding, truth: Mapping[str, Any]) -> bool:
    if finding.kind == "link":
        ends = str(finding.details["link"] or "").split(ENDS)
        return truth["node"] in (finding.details["node"], *ends)
    node = next(info.node for info in grid.ranks if info.rank == finding.rank)
    return bool(truth["node"] == node if truth["rank"] is None else truth["rank"] == finding.rank)


def elsewhere(example: Example, dice: np.random.Generator) -> Example:
    """The finding as another fleet would tell it, with the cause that can be known there.

    That fleet lacks sources, or GPUs; does not show all that it may; times its garbage collector;
    has had other troubles at another time; or its GPU contradicts itself. Our simulated ones differ
    too little in all this, and a fit would believe that every fleet is like them.
    """
    states, cause = dict(example.states), example.cause
    if example.kind == "slow" and dice.random() < COLLECTED:
        collects = cause == Cause.GC and dice.random() >= NOT_COLLECTED
        states = _with(states, "garbage collection", "strong" if collects else "none")
        cause = UNKNOWN if cause == Cause.GC and not collects else cause
    if example.kind == "slow" and dice.random() < COINCIDENT:
        name = COINCIDENCES[int(dice.integers(len(COINCIDENCES)))]
        if f"{name}: none" in states and name not in _own(cause):
            states = _with(states, name, "strong", "elsewhen")
            if (logged := XID_OF.get(name)) and dice.random() < LOGGED:
                states = _with(states, logged, "strong", "elsewhen")
    for name in _own(cause, (MAY,)):
        if dice.random() < UNSHOWN and any(symptom_of(state) == name for state in states):
            states = _with(states, name, "none")
    if "contradiction: none" in states and dice.random() < CONTRADICTED:
        states = _with(states, "contradiction", "strong")
        cause = UNKNOWN if cause in (Cause.THERMAL, Cause.POWER, Cause.SLOW_GPU) else cause
    of_host = cause in SPECS and not SPECS[cause].of_gpu
    gpu = example.gpu and not (of_host and example.kind == "slow" and dice.random() < GPULESS)
    if example.gpu and not gpu:
        states = _without(states, GPU_ONLY) | {NO_GPU: 1.0}
        if cause == Cause.SLOW_GPU and dice.random() < ON_THE_CPU:
            states = _with(states, "more CPU time", "strong")
            states = _with(states, "excess on the CPU", "strong")
    gone = {
        name
        for source, names in SOURCES.items()
        if dice.random() < (UNNAMED if source == PHASES else LACKED)
        for name in names
    }
    states = _without(states, gone)
    return Example(_knowable(cause, states), example.kind, gpu, states)


def symptom_of(state: str) -> str:
    """The symptom of which a state is."""
    return state.partition(":")[0]


def _with(states: Mapping[str, float], name: str, *told: str) -> dict[str, float]:
    return _without(states, {name}) | {f"{name}: {state}": 1.0 for state in told}


def _without(states: Mapping[str, float], gone: Collection[str]) -> dict[str, float]:
    return {state: share for state, share in states.items() if symptom_of(state) not in gone}


def _own(cause: str, wanted: Sequence[Expectation] = (MUST, MAY)) -> list[str]:
    """Symptoms of a cause; of where the excess is only those that it must show."""
    if cause not in SPECS:
        return []
    return [
        name
        for expectation, names in SPECS[cause].expects.items()
        if expectation in wanted
        for name in names
        if expectation is MUST or not name.startswith("excess")
    ]


def _knowable(cause: str, states: Mapping[str, float]) -> str:
    """The cause, if any symptom of its own is still told to be there."""
    if cause not in SPECS or cause == Cause.LINK:
        return cause

    def there(name: str) -> bool:
        return f"{name}: strong" in states or f"{name}: mild" in states

    if cause == Cause.SLOW_GPU:  # it is what is left where all else answers, and tells of nothing
        silent = any(f"{name}: none" in states for name in ("lower clock", "thermal throttling"))
        told = there("excess in compute") and (silent or NO_GPU in states)
    elif cause == Cause.GC:
        by_phase = there("excess elsewhere") and there("excess on the CPU")
        told = there("garbage collection") or (
            by_phase and "garbage collection: none" not in states
        )
    else:
        told = any(there(name) for name in _own(cause) if name != "longer transfers")
    if not told and cause == Cause.CONGESTION:
        return Cause.LINK.value  # a full link carries less as well
    return cause if told else UNKNOWN
