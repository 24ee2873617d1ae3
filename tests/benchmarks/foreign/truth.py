"""What was injected into a run, what it cost, and whether its archive can tell of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.collector.contract.words import Cause
from tests.benchmarks.foreign import kinds
from tests.benchmarks.foreign.faults import Fault
from tests.benchmarks.foreign.scene import Scene
from tests.benchmarks.foreign.timeline import Timeline
from tests.benchmarks.simulated.grading import Injected, Truth

LEAST_FACTOR, LEAST_COST = 1.03, 0.03
"""Of a rank's own time, and the share of steps that a link costs, from which on it can be told."""
LEAST_EVIDENCE = 8
"""Standard deviations of the mean own time that a fault must be away from others' time."""
FROM_BEGIN = 1.22
"""Factor that healthy parts may differ by where there is no time before the fault."""


@dataclass(frozen=True)
class Told:
    """How much a fault is, and why its archive cannot tell of it; "" where it can.

    Attributes:
        factor: Of a rank's own time, of a write, or of steps by a link or pauses; None of an end.
    """

    factor: float | None
    why: str = ""


def document(scene: Scene, quiet: Timeline, alone: Mapping[Fault, Timeline]) -> dict[str, Any]:
    """The truth file; `quiet` is the run without faults, `alone` with one of them each."""
    scenario, timeline = scene.scenario, scene.timeline
    layout, communication = scenario.layout, scenario.communication
    before = quiet.longest[: timeline.steps].sum()
    return {
        "kind": scenario.kind,
        "seed": scenario.seed,
        "layout": {
            "ranks": layout.ranks, "per_node": layout.per_node, "dp": layout.dp, "pp": layout.pp,
            "tp": layout.tp, "stages_inner": layout.stages_inner,
        },
        "steps": timeline.steps,
        "minutes": (timeline.finish - scene.begin) / 60,
        "rows": scenario.length.rows,
        "missing": sorted(scenario.surroundings.missing),
        "attempts": scenario.habits.attempts,
        "silent": [
            [scene.names[node], begin, end]
            for node, begin, end in scenario.surroundings.silent
        ],
        "decoys": scene.decoys,
        "fabric": communication.fabric,
        "rails": communication.rails,
        "topology": communication.topology,
        "run_slowdown": float(timeline.longest.sum() / before),
        "faults": [_fault(scene, quiet, alone[fault], fault) for fault in scenario.faults],
    }  # fmt: skip


def _fault(scene: Scene, quiet: Timeline, alone: Timeline, fault: Fault) -> dict[str, Any]:
    steps = scene.timeline.steps
    active = np.flatnonzero(scene.timeline.level(fault) > 0)
    told = _told(scene, quiet, fault)
    causes = list(kinds.CAUSES[fault.kind])
    if any(scene.lacks(family) for family in kinds.CAUSE_TOLD_BY.get(fault.kind, ())):
        causes.append(Cause.UNKNOWN)
    slowdown = None
    if fault.kind == kinds.PAUSES:
        slowdown = told.factor
    elif fault.kind not in kinds.ENDINGS and len(active):
        slowdown = float(alone.longest[active].sum() / quiet.longest[active].sum())
    return {
        "kind": fault.kind,
        "causes": causes,
        "scope": fault.scope,
        "ranks": fault.ranks,
        "nodes": [scene.names[node] for node in fault.nodes],
        "link": None if fault.leaf is None else f"leaf-{fault.leaf}",
        "shape": fault.shape,
        "from_step": int(active[0]) if len(active) else steps,
        "to_step": int(active[-1]) + 1 if len(active) else steps,
        "factor_intended": fault.factor,
        "factor_measured": told.factor,
        "step_slowdown_on": slowdown,
        "ends": fault.kind in kinds.ENDINGS,
        "why_not": _silent(scene, fault) or told.why,
    }


def _silent(scene: Scene, fault: Fault) -> str:
    for node, begin, end in scene.scenario.surroundings.silent:
        while_there = begin <= fault.begin and end >= fault.end
        if node in fault.nodes and fault.end < 1 and while_there:
            return "its node is silent meanwhile"
    return ""


def _told(scene: Scene, quiet: Timeline, fault: Fault) -> Told:
    timeline = scene.timeline
    active = np.flatnonzero(timeline.level(fault) > 0)
    if fault.kind in kinds.ENDINGS:
        return Told(None)
    if fault.kind == kinds.PAUSES:
        stood = sum(end - begin for _, begin, end in timeline.pauses)
        factor = float(1 + stood / quiet.longest[: timeline.steps].sum())
        return Told(factor, "" if len(timeline.pauses) > 1 else "it pauses once")
    if not len(active):
        return Told(None, "it is never active")
    if fault.kind in kinds.CHECKPOINT_FAULTS:
        writes = sum("checkpoint" in timeline.tags[step] for step in active)
        why = "asynchronous writes" if scene.scenario.habits.checkpoint_async else ""
        return Told(fault.factor, why or ("" if writes > 1 else "fewer than two slow writes"))
    if fault.kind in kinds.NETWORK_FAULTS or fault.kind == "nvlink":
        before = quiet.longest[active].sum()
        return _of_link(scene, fault, (timeline.longest[active].sum() - before) / before)
    return _of_ranks(scene, quiet, fault)


def _of_link(scene: Scene, fault: Fault, cost: float) -> Told:
    why = ""
    counted = fault.kind in ("portloss", "portflap")
    infiniband = scene.scenario.communication.fabric == "ib"
    if counted and infiniband and scene.lacks(kinds.PORT_ERRORS):
        why = "no counters of the port"
    elif fault.shape == "start":
        why = "a link that is slow from the first step on"
    elif cost < LEAST_COST:
        why = f"it costs {100 * cost:.1f} % of a step"
    return Told(float(1 + cost), why)


def _of_ranks(scene: Scene, quiet: Timeline, fault: Fault) -> Told:
    """By their own time, against that without the fault and against the spread of their peers."""
    timeline, steps = scene.timeline, scene.timeline.steps
    active = np.flatnonzero(timeline.level(fault) > 0)
    usual = quiet.own[:steps]
    own = timeline.own[:, fault.ranks][active].sum()
    factor = float(own / usual[:, fault.ranks][active].sum())
    apart = np.log(usual) - np.median(np.log(usual), 1, keepdims=True)
    deviation = np.std(np.diff(apart[:, fault.ranks[0]])) / 1.414 + 1e-9
    evidence = math.log(max(1e-9, factor)) / deviation * math.sqrt(len(active))
    why = ""
    if fault.shape == "start" and factor < FROM_BEGIN:
        why = "from the first step on, within what parts differ by"
    elif evidence < LEAST_EVIDENCE:
        why = "in the noise"
    elif factor < LEAST_FACTOR:
        why = f"{factor:.3f} of its own time"
    return Told(factor, why)


def read(truth: Mapping[str, Any]) -> Truth:
    """A truth file's JSON as grading takes it."""
    return Truth(tuple(map(_injected, truth["faults"])), truth["kind"])


def _injected(fault: Mapping[str, Any]) -> Injected:
    slowdown = fault["step_slowdown_on"]
    effect = None if fault["ends"] else (slowdown or 1.0) - 1
    return Injected(
        kind=fault["kind"],
        scope=fault["scope"],
        ranks=tuple(fault["ranks"]) if fault["scope"] != "link" else (),
        nodes=tuple(fault["nodes"]),
        link=fault["link"],
        causes=tuple(fault["causes"]),
        effect=effect,
        tellable=not fault["why_not"],
        detail=f"{fault['shape']}, {fault['why_not'] or 'told'}",
    )
