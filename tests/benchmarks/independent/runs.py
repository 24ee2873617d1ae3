"""One run from its kind, seed and number: what happens in it, its archive, and its truth."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lockstep.collector.contract.archive import OPS_FILE, TRUTH_FILE
from tests.benchmarks.independent import archive, benign
from tests.benchmarks.independent.fault_effects import effects_of
from tests.benchmarks.independent.faults import (
    CAUSES,
    GPU_FAULTS,
    HOST_FAULTS,
    NETWORK_FAULTS,
    SECOND_FAULTS,
    SEEN_IN_STEPS,
    STOP_FAULTS,
    Fault,
    Stop,
    choose_kind,
    draw_details,
    draw_fault,
    draw_stop,
)
from tests.benchmarks.independent.layout import Plan, World, draw_world
from tests.benchmarks.independent.noise import Noise, draw_noise
from tests.benchmarks.independent.steps import Timeline, no_effects, simulate
from tests.benchmarks.independent.telemetry import Scene
from tests.benchmarks.simulated.arrays import Generator

MIXED, SMALL, TWO, BENIGN, HARD = "mixed", "small", "two", "benign", "hard"
"""Kinds beside the name of a fault: even numbers of `mixed` have any fault, odd ones none; small
faults; two at once; benign runs; benign runs that look like faults."""
TRIES = 50


@dataclass(frozen=True)
class Wish:
    """What is injected, or what is benign; both None for a healthy run."""

    fault: str | None
    benign: str | None
    small: bool
    plan: Plan

    @property
    def family(self) -> str:
        if self.fault is not None:
            return "injected"
        return "healthy" if self.benign is None else "benign"


def name_of(kind: str, seed: int, number: int) -> str:
    """Of a run, and of the folder of its archive."""
    return f"{kind}-{seed}-{number:03d}"


def make(folder: Path, kind: str, seed: int, number: int) -> Path:
    """Writes the archive of a run into a folder of its own under `folder`, which it returns."""
    rng = np.random.default_rng([seed, number, sum(map(ord, kind)) * 31 + len(kind)])
    wish = _wish(rng, kind, name_of(kind, seed, number), number)
    world, first = _world(rng, wish)
    noise = draw_noise(rng, world, wish.plan)
    benign.add(rng, world, noise, wish.plan.benign)
    quiet = simulate(world, noise, no_effects(world))
    timeline, faults, stop = quiet, list[Fault](), None
    if first is not None:
        timeline, faults, stop = _inject(rng, world, noise, quiet, kind, first, wish.small)
    target = folder / wish.plan.name
    scene = archive.write(rng, world, noise, wish.plan, timeline, quiet, faults, stop, target)
    told = _truth(scene, wish, (target / OPS_FILE).exists())
    (target / TRUTH_FILE).write_text(json.dumps(told, indent=1, default=_plain))
    return target


def _wish(rng: Generator, kind: str, name: str, number: int) -> Wish:
    injected = kind in CAUSES or kind in (SMALL, TWO) or (kind == MIXED and number % 2 == 0)
    harmless, layout = None, None
    if not injected:
        healthy = kind == MIXED and rng.random() < 0.4
        if not healthy:
            harmless = str(rng.choice(benign.HARD if kind == HARD else benign.USUAL))
        if harmless == "stage":
            layout = str(rng.choice(benign.STAGED))
    small = kind == SMALL or (kind == MIXED and rng.random() < 0.2)
    fault, communication, topology = None, None, False
    if injected:
        fault = kind
        if kind not in CAUSES:
            stops = () if kind == TWO else STOP_FAULTS
            fault = str(rng.choice(GPU_FAULTS + NETWORK_FAULTS + HOST_FAULTS + stops))
        if fault in NETWORK_FAULTS:
            communication = rng.uniform(0.1, 0.35)
        if fault == "nvlink":
            layout = str(rng.choice(["tpdp", "3d", "dp1"]))
        if fault == "congestion":
            topology = rng.random() < 0.7
    plan = Plan(
        name=name, run=f"f{name}", benign=harmless, layout=layout, communication=communication,
        topology=topology, checkpoints=fault == "ckpt",
        prefix=str(rng.choice(["node-", "gpu-a", "h", "dgx-r1-"])),
        offset=float(rng.uniform(0, 1e6)), lost=float(rng.uniform(0.003, 0.02)),
        operations=bool(rng.random() < 0.5), tokens=int(rng.choice([2048, 4096, 8192])),
        parameters=float(rng.choice([1e9, 7e9, 13e9, 70e9])),
        without_gpu=bool(rng.random() < 0.03), outcome_told=bool(rng.random() < 0.5),
    )  # fmt: skip
    return Wish(fault, harmless, small, plan)


def _world(rng: Generator, wish: Wish) -> tuple[World, str | None]:
    """A cluster that can have the fault, and the fault."""
    for _ in range(TRIES):
        world = draw_world(rng, wish.plan)
        if wish.fault is None:
            return world, None
        if (kind := choose_kind(rng, world, [wish.fault])) is not None:
            return world, kind
    raise ValueError(f"no cluster of {TRIES} can have {wish.fault}")


def _inject(
    rng: Generator, world: World, noise: Noise, quiet: Timeline, kind: str, first: str, small: bool
) -> tuple[Timeline, list[Fault], Stop | None]:
    """One fault or two on different nodes: the run with all of them."""
    kinds = [first]
    if kind == TWO or (kind == MIXED and rng.random() < 0.12 and first not in STOP_FAULTS):
        second = choose_kind(rng, world, SECOND_FAULTS)
        kinds += [second] if second is not None else []
    joined, faults, stop = no_effects(world), list[Fault](), None
    for each in kinds:
        fault = draw_fault(rng, world, each, small, [fault.node for fault in faults])
        draw_details(rng, fault)
        if each in STOP_FAULTS:
            stop = draw_stop(rng, world, fault)
        else:
            effects = effects_of(rng, world, noise, fault)
            fault.alone = simulate(world, noise, effects)
            joined.join(effects)
        faults.append(fault)
    return (quiet if stop else simulate(world, noise, joined)), faults, stop


def _truth(scene: Scene, wish: Wish, operations: bool) -> dict[str, Any]:
    world, noise, stop, chance = scene.world, scene.noise, scene.stop, scene.noise.coincidence
    layout = world.layout
    return {
        "faults": [_fault_truth(scene, fault) for fault in scene.faults],
        "family": wish.family,
        "benign": wish.benign,
        "uniform": noise.run_wide,
        "run_slowdown": float(scene.timeline.last_word.sum() / scene.quiet.last_word.sum()),
        "layout": {
            "kind": layout.kind, "nodes": layout.nodes, "g": layout.per_node, "dp": layout.dp,
            "pp": layout.pp, "tp": layout.tp, "M": world.microbatches,
        },
        "T_step": world.step_seconds,
        "S": world.steps,
        "stop": None if stop is None else {
            "kind": stop.kind, "step": stop.step, "ranks": stop.ranks, "timeout": stop.timeout,
        },
        "cv": world.spread,
        "seqvar": noise.length_spread,
        "stagew": world.stage_weight.tolist(),
        "lottery_max": float(world.lottery.max()),
        "decoys": scene.decoys,
        "coin": None if chance is None else [chance.rank, chance.step, chance.sensor],
        "ops": operations,
        "nogpu": scene.plan.without_gpu,
        "topo": world.topology,
        "fabric": world.fabric,
        "gcmode": noise.gc_mode,
    }  # fmt: skip


def _fault_truth(scene: Scene, fault: Fault) -> dict[str, Any]:
    """Slowdowns are those that this fault causes alone, while it is there, against none."""
    own = steps = None
    on = fault.level > 0
    if on.any() and fault.alone is not None:
        alone, quiet = fault.alone, scene.quiet
        member = fault.member
        own = float(alone.own[on][:, member].sum() / quiet.own[on][:, member].sum())
        steps = float(alone.last_word[on].sum() / quiet.last_word[on].sum())
    return {
        "kind": fault.kind,
        "cause": CAUSES[fault.kind],
        "scope": fault.scope,
        "rank": fault.rank if fault.scope == "rank" else None,
        "node": scene.names[fault.node] if fault.scope != "rack" else None,
        "seedrank": fault.rank,
        "link": None if fault.leaf is None else f"leaf-{fault.leaf}",
        "nodes": [scene.names[node] for node in fault.leaf_nodes or (fault.node,)],
        "members": fault.members,
        "from_step": fault.begin,
        "to_step": fault.end if fault.end < scene.world.steps else None,
        "shape": fault.shape,
        "factor_intended": fault.factor,
        "factor_measured": own,
        "step_slowdown_on": steps,
        "on_share": float(on.mean()),
        "telemetry": "good" if fault.kind in SEEN_IN_STEPS else fault.telemetry,
        "xfac": fault.times,
        "rail": fault.rail,
        "xid": fault.xid,
        "events": len(fault.events),
    }


def _plain(value: Any) -> Any:
    return value.item()
