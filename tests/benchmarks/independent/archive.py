"""One simulated run as the files of an archive."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from lockstep.collector.contract.archive import RUN_FILE, SAMPLES_FILE, STEPS_FILE
from lockstep.collector.contract.words import PHASES
from tests.benchmarks.independent import gpu_telemetry, node_telemetry, rank_telemetry
from tests.benchmarks.independent.faults import Fault, Stop
from tests.benchmarks.independent.gpu_state import draw_hardware
from tests.benchmarks.independent.layout import Plan, World
from tests.benchmarks.independent.noise import Noise
from tests.benchmarks.independent.operations import write_operations
from tests.benchmarks.independent.steps import Timeline
from tests.benchmarks.independent.telemetry import NEVER, Scene, scrape
from tests.benchmarks.simulated.arrays import Floats, Generator
from tests.benchmarks.simulated.files import (
    moment,
    outcome,
    run_document,
    steps_table,
    write_ranks,
    write_topology,
)
from tests.benchmarks.simulated.samples import Samples

EPOCH = 1_795_900_000.0
"""Unix time before which no run begins."""
CLOCK_ERROR = 0.002
"""Seconds, deviation of the clocks of nodes."""


def write(
    rng: Generator, world: World, noise: Noise, plan: Plan, timeline: Timeline, quiet: Timeline,
    faults: list[Fault], stop: Stop | None, folder: Path,
) -> Scene:  # fmt: skip
    """All files but the truth; `quiet` is the run without faults."""
    folder.mkdir(parents=True, exist_ok=True)
    clocks = rng.normal(0, CLOCK_ERROR, world.layout.nodes)
    names = [f"{plan.prefix}{node:02d}" for node in range(world.layout.nodes)]
    _write_ranks(rng, world, names, folder)
    scene = _scene(rng, world, noise, plan, timeline, quiet, faults, stop, names)
    _write_steps(scene, clocks, folder)
    samples = Samples()
    scrape(rng, scene, samples)
    scene.late = [rng.uniform(60, 400) for _ in faults]
    hardware = draw_hardware(rng, scene)
    for rank in range(world.ranks):
        gpu_telemetry.tell(rng, scene, hardware, rank, samples)
        rank_telemetry.tell(rng, scene, rank, samples)
    node_telemetry.tell(rng, scene, samples)
    pq.write_table(samples.table(), folder / SAMPLES_FILE)
    if plan.operations:
        write_operations(scene, folder)
    if world.topology:
        write_topology(folder, names, world.leaf_size)
    (folder / RUN_FILE).write_text(json.dumps(_run(scene), indent=1))
    return scene


def _scene(
    rng: Generator, world: World, noise: Noise, plan: Plan, timeline: Timeline, quiet: Timeline,
    faults: list[Fault], stop: Stop | None, names: list[str],
) -> Scene:  # fmt: skip
    steps, shape = world.steps, (world.steps, world.ranks)
    last_word = EPOCH + plan.offset + np.cumsum(timeline.last_word)
    before = np.concatenate([[last_word[0] - timeline.last_word[0]], last_word[:-1]])
    start = before[:, None] + timeline.begin
    end = start + timeline.wall
    stopped, finish = NEVER, float(end.max())
    if stop is not None:
        stopped = float(start[stop.step].max() + 0.3 * world.step_seconds)
        finish = stopped + stop.timeout
    of_replica = np.repeat(noise.tokens[:, None, :, None], world.layout.pp, 1)
    of_rank = of_replica.repeat(world.layout.tp, 3).reshape(shape)
    tokens = np.round(of_rank * plan.tokens * world.microbatches)
    cpu = noise.cpu_share * np.minimum(quiet.own, np.median(quiet.own)) * noise.cpu
    for fault in faults:
        if fault.collected is not None:
            cpu = cpu + fault.collected
    fall = (2 + 6 * np.exp(-np.arange(steps) / max(steps / 3, 1)))[:, None]
    loss = fall + rng.normal(0, 0.02, (steps, 1))
    return Scene(
        world=world, noise=noise, plan=plan, timeline=timeline, quiet=quiet, faults=faults,
        stop=stop, names=names, last_word=last_word, start=start, end=end, cpu=cpu, tokens=tokens,
        flops=tokens * 6 * plan.parameters / (world.layout.pp * world.layout.tp),
        loss=np.where((world.pp_of == world.layout.pp - 1)[None, :], loss, np.nan),
        stopped=stopped, finish=finish,
    )  # fmt: skip


def _write_ranks(rng: Generator, world: World, names: list[str], folder: Path) -> None:
    uuids = [
        f"GPU-{rng.integers(1 << 32):08x}-{rng.integers(1 << 16):04x}-4a1b-9c2d-"
        f"{rng.integers(1 << 48):012x}"
        for _ in range(world.ranks)
    ]
    nodes = [names[node] for node in world.node]
    write_ranks(folder, nodes, world.local, uuids, world.dp_of, world.pp_of, world.tp_of)


def _write_steps(scene: Scene, clocks: Floats, folder: Path) -> None:
    """Rank by rank, as a recorder writes that reads one ring after the other."""
    world, timeline = scene.world, scene.timeline
    last = world.steps if scene.stop is None else scene.stop.step

    def column(values: npt.ArrayLike) -> npt.NDArray[Any]:
        whole = np.broadcast_to(np.asarray(values), (world.steps, world.ranks))
        return whole[:last].T.ravel()

    telling = scene.tells_work[None, :]
    columns = {
        "step": column(np.arange(world.steps)[:, None]),
        "rank": column(np.arange(world.ranks)[None, :]),
        "attempt": column(0),
        "start": column(scene.start + clocks[world.node]),
        "wall_seconds": column(timeline.wall),
        "cpu_seconds": column(scene.cpu),
        "own_seconds": column(timeline.own),
        "tags": np.tile(np.array(_tags(scene)[:last]), world.ranks),
        "loss": column(scene.loss),
        "samples": column(np.where(telling, world.microbatches, 0)),
        "tokens": column(np.where(telling, scene.tokens, 0)),
        "flops": column(scene.flops),
    }
    for phase in PHASES:
        columns[f"{phase}_seconds"] = column(np.maximum(timeline.phases[phase], 0))
    pq.write_table(steps_table(columns), folder / STEPS_FILE)


def _tags(scene: Scene) -> list[str]:
    noise = scene.noise
    warm = noise.warm_told & (np.arange(scene.world.steps) < noise.warm)
    tagged = {
        "gc": noise.gc_steps,
        "eval": noise.evaluation_steps,
        "checkpoint": noise.checkpoint_steps,
        "warmup": warm,
    }
    return [
        ",".join(tag for tag, steps in tagged.items() if steps[step])
        for step in range(scene.world.steps)
    ]


def _run(scene: Scene) -> dict[str, Any]:
    plan, layout, stop = scene.plan, scene.world.layout, scene.stop
    sizes = {"nodes": layout.nodes, "ranks_per_node": layout.per_node, "dp": layout.dp}
    ended = outcome("finished")
    if stop is not None:
        ending = "crash" if stop.of_death else "hang"
        ended = outcome(ending, stop.ranks if plan.outcome_told else [])
    document = run_document(
        run=plan.run,
        workload="gpt",
        started=scene.begin - 20,
        layout={"world": layout.ranks} | sizes | {"pp": layout.pp, "tp": layout.tp},
        versions={
            "lockstep": "0.1.0", "python": "3.11.9", "torch": "2.4.0", "kernel": "5.15.0",
        },
        clock_error=CLOCK_ERROR,
    )  # fmt: skip
    return document | {
        "ended": moment(scene.finish + 2),
        "outcome": ended,
        "spec": {
            "run": plan.run,
            "workload": "gpt",
            "layout": sizes | {"tp": layout.tp, "pp": layout.pp},
            "steps": scene.world.steps,
            "seed": 0,
        },
    }
