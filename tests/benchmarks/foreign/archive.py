"""One simulated run as the files of an archive."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from lockstep.collector.contract.archive import RUN_FILE, SAMPLES_FILE, STEPS_FILE
from tests.benchmarks.foreign import (
    gpu_telemetry,
    host_telemetry,
    kinds,
    port_telemetry,
    rank_telemetry,
)
from tests.benchmarks.foreign.scenario import Scenario
from tests.benchmarks.foreign.scene import DECOYS, Scene, nodes
from tests.benchmarks.foreign.streams import code_of
from tests.benchmarks.foreign.timeline import Timeline
from tests.benchmarks.simulated.arrays import Ints
from tests.benchmarks.simulated.files import (
    moment,
    outcome,
    run_document,
    steps_table,
    write_ranks,
    write_topology,
)

WATCHED_AFTER = (90, 200, 400)
"""Seconds for which a run that stopped is watched."""
PARAMETERS = 7e9
LOST_STEPS = 20
"""Steps that a restart repeats where there is no checkpoint."""


def write(scenario: Scenario, timeline: Timeline, folder: Path) -> Scene:
    """All files but the truth."""
    folder.mkdir(parents=True, exist_ok=True)
    scene = _scene(scenario, timeline)
    (folder / RUN_FILE).write_text(json.dumps(_run(scene), indent=1))
    _write_ranks(scene, folder)
    if scenario.communication.topology:
        write_topology(folder, scene.names, scenario.communication.leaf_size)
    step_numbers, attempts = _numbered(scene)
    if scenario.length.rows:
        _write_steps(scene, step_numbers, attempts, folder)
    for node in nodes(scene):
        host_telemetry.tell(node)
        port_telemetry.tell(node)
        if not scene.lacks(kinds.GPU):
            for rank in node.ranks:
                gpu_telemetry.tell(node, int(rank))
        for rank in node.ranks:
            rank_telemetry.tell(node, int(rank), step_numbers)
    pq.write_table(scene.samples.table(), folder / SAMPLES_FILE, compression="zstd")
    return scene


def _scene(scenario: Scenario, timeline: Timeline) -> Scene:
    rng, layout = scenario.stream("export"), scenario.layout
    after_stop = 0.0
    if timeline.stop is not None:
        after_stop = float(rng.choice(WATCHED_AFTER))
    finish = timeline.finish + (after_stop or float(rng.uniform(0, 3)))
    decoys = {}
    if scenario.surroundings.decoys:
        decoys = {sensor: int(rng.integers(layout.ranks)) for sensor in DECOYS}
    rack = f"gpu-{scenario.seed % 7}{chr(ord('a') + layout.ranks % 5)}"
    names = [f"{rack}-{node:03d}" for node in range(layout.nodes)]
    return Scene(scenario, timeline, rng, names, finish, after_stop, decoys)


def _run(scene: Scene) -> dict[str, Any]:
    scenario, layout = scene.scenario, scene.scenario.layout
    document = run_document(
        run=f"job-{scenario.seed}-{code_of(scenario.kind) % 9999:04d}",
        workload="external",
        started=scene.begin - 40,
        layout={
            "world": layout.ranks, "nodes": layout.nodes, "ranks_per_node": layout.per_node,
            "dp": layout.dp, "pp": layout.pp, "tp": layout.tp,
        },
        versions={"lockstep": "0.1.0", "python": "3.11.7"},
        clock_error=float(np.abs(scenario.surroundings.clocks).max()),
    )  # fmt: skip
    # A run that stopped has not been ended by anybody yet.
    if scene.timeline.stop is None:
        document |= {"ended": moment(scene.finish), "outcome": outcome("finished")}
    return document


def _write_ranks(scene: Scene, folder: Path) -> None:
    layout, seed = scene.scenario.layout, scene.scenario.seed
    uuids = [
        f"GPU-{code_of(f'{seed}-{rank}'):08x}-0000-4000-8000-{code_of(f'u{rank}'):012x}"
        for rank in range(layout.ranks)
    ]
    names = [scene.names[node] for node in layout.node]
    write_ranks(folder, names, layout.local, uuids, layout.dp_of, layout.pp_of, layout.tp_of)


def _numbered(scene: Scene) -> tuple[Ints, Ints]:
    """(steps,) numbers as the program counts them, and attempts: it goes on from what it saved."""
    habits, steps = scene.scenario.habits, scene.timeline.steps
    numbers, attempts = np.arange(steps), np.zeros(steps, int)
    for first in habits.attempts:
        if first < steps:
            saved = habits.checkpoint_every
            numbers[first:] -= min(first, first % saved if saved else LOST_STEPS)
            attempts[first:] += 1
    return numbers, attempts


def _write_steps(scene: Scene, numbers: Ints, attempts: Ints, folder: Path) -> None:
    """Step by step, as a recorder does that takes what each rank has done, in two parts."""
    timeline, layout = scene.timeline, scene.scenario.layout
    each, rows = layout.ranks, timeline.steps * layout.ranks
    tokens = timeline.tokens.ravel()
    clocks = scene.scenario.surroundings.clocks[layout.node]
    columns = {
        "step": np.repeat(numbers, each),
        "rank": np.tile(np.arange(each), timeline.steps),
        "attempt": np.repeat(attempts, each),
        "start": (timeline.start + clocks).ravel(),
        "wall_seconds": timeline.wall.ravel(),
        "cpu_seconds": timeline.cpu.ravel(),
        "own_seconds": timeline.own.ravel(),
        **{f"{phase}_seconds": seconds.ravel() for phase, seconds in timeline.phases.items()},
        "tags": np.repeat(np.array(timeline.tags, dtype=object), each),
        "loss": np.repeat(2 + 8 * np.exp(-numbers / 200.0), each),
        "samples": (tokens // 4096).astype(np.int64),
        "tokens": tokens.astype(np.int64),
        "flops": (3 * 2 * PARAMETERS / (layout.pp * layout.tp)) * tokens,
    }
    table = steps_table(columns)
    (folder / STEPS_FILE).mkdir(exist_ok=True)
    for part, (begin, end) in enumerate(((0, rows // 2), (rows // 2, rows))):
        file = folder / STEPS_FILE / f"part-{part}.parquet"
        pq.write_table(table.slice(begin, end - begin), file)
