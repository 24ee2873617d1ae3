"""Verdicts on runs in which a rank stands still for a while, or a node writes checkpoints slowly.

STILL_RUNS (40) runs of each of these two kinds, and as many of healthy ones, of 32 to 96 ranks and
for up to an hour, are walked by `tests.benchmarks.foreign`, diagnosed from their archives in two
processes and graded as `foreign_runs` does. What differs from that generator's own kinds: a rank
stands still once or a few times, for 15 s to 4 minutes, and a slow writer is slower by 1.4 to 3
times, wherever one rank writes, one of each node, a replica, or all. STILL_SEED (2026) makes other
runs; STILL_FOLDER keeps the archives. Never tune on a seed and quote its figures.
"""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lockstep.collector.contract.archive import TRUTH_FILE
from tests.benchmarks import simulated_verdicts
from tests.benchmarks.foreign import archive, truth
from tests.benchmarks.foreign.drawing import draw
from tests.benchmarks.foreign.faults import Fault
from tests.benchmarks.foreign.kinds import PAUSES
from tests.benchmarks.foreign.scenario import Layout, Scenario
from tests.benchmarks.foreign.streams import stream
from tests.benchmarks.foreign.walk import simulate
from tests.benchmarks.simulated.arrays import Bools, Generator
from tests.benchmarks.simulated.grading import RunGrade

RUNS = int(os.environ.get("STILL_RUNS", "40"))
SEED = int(os.environ.get("STILL_SEED", "2026"))
FOLDER = Path(os.environ["STILL_FOLDER"]) if "STILL_FOLDER" in os.environ else None
GOALS = simulated_verdicts.GOALS
WRITERS = ("ckptrank", "ckptnode")
HEALTHY = ("plain", "ckpts", "rank0ckpt", "rank0log", "rank0eval", "restart", "epoch", "evals")
LAYOUTS = (
    (32, 8, 32, 1, 1), (32, 4, 16, 2, 1), (32, 8, 4, 4, 2), (48, 8, 48, 1, 1), (48, 8, 6, 1, 8),
    (64, 8, 64, 1, 1), (64, 8, 8, 2, 4), (64, 8, 16, 4, 1), (96, 8, 96, 1, 1), (96, 8, 12, 1, 8),
    (96, 8, 12, 2, 4),
)  # fmt: skip
"""Ranks, ranks of a node, replicas, stages, width."""
SEEDS = 1000
"""Seeds of runs that a seed of many has for itself."""


@dataclass(eq=False)
class Still(Fault):
    """A rank that stands still at shares of the run, for seconds each."""

    moments: tuple[tuple[float, float], ...] = ()

    def pauses(self, steps: int) -> dict[int, float]:
        """As of `Fault`."""
        return {int(steps * share): seconds for share, seconds in self.moments}


@dataclass
class Written(Scenario):
    """Its checkpoints are written by some ranks; None: by those of any scenario."""

    by: Bools | None = None

    @property
    def writers(self) -> Bools:
        """(ranks,) of those that write checkpoints."""
        return super().writers if self.by is None else self.by


def main() -> dict[str, float]:
    kinds = [PAUSES] * RUNS + [WRITERS[number % 2] for number in range(RUNS)]
    kinds += [HEALTHY[number % len(HEALTHY)] for number in range(RUNS)]
    return simulated_verdicts.measure(
        judged, [(kind, SEED * SEEDS + number) for number, kind in enumerate(kinds)]
    )


def judged(kind: str, seed: int) -> RunGrade:
    """The grade of one run."""
    name = f"{kind}-{seed}"
    return simulated_verdicts.judge(name, FOLDER, lambda folder: make(folder, kind, seed),
                                    truth.read)  # fmt: skip


def make(folder: Path, kind: str, seed: int) -> Path:
    """Writes the archive of a run into a folder of its own under `folder`, which it returns."""
    scenario = drawn(kind, seed)
    quiet = timeline = simulate(scenario, [])
    if scenario.faults:
        timeline = simulate(scenario, scenario.faults)
    target = folder / f"{kind}-{seed}"
    scene = archive.write(scenario, timeline, target)
    told = truth.document(scene, quiet, dict.fromkeys(scenario.faults, timeline))
    for fault in told["faults"]:
        if fault["kind"] == PAUSES and fault["why_not"] == "it pauses once":
            fault["why_not"] = ""
    (target / TRUTH_FILE).write_text(json.dumps(told, indent=1))
    return target


def drawn(kind: str, seed: int) -> Scenario:
    """The run of a kind and seed: as of the generator, of another size and with another fault."""
    rng = stream("still", kind, seed)
    layout = Layout(*LAYOUTS[rng.integers(len(LAYOUTS))], stages_inner=False)
    seconds = float(rng.uniform(0.8, 6))
    steps = int(min(rng.uniform(1500, 3600) / seconds, 700))
    of = draw(kind, seed)
    compute = replace(
        of.compute,
        microbatches=1 if layout.pp == 1 else 2 * layout.pp,
        stage_weight=1 + rng.uniform(0, 0.05, layout.pp),
        level=np.exp(rng.normal(0, 0.01, layout.ranks)),
        silicon=np.exp(rng.normal(0, 0.03, layout.ranks)),
        cooling=np.exp(rng.normal(0, 0.05, layout.ranks)),
    )
    communication = replace(of.communication, clip=of.communication.clip or layout.dp == 1,
                            rails=1, fabric="ib", topology=False)  # fmt: skip
    every = int(steps / rng.integers(8, 25)) if of.habits.checkpoint_every else 0
    habits = replace(
        of.habits,
        checkpoint_every=every,
        checkpoint_seconds=float(rng.uniform(0.04, 0.15)) * max(every, 1) * seconds,
        eval_every=int(steps / 8) if of.habits.eval_every else 0,
        eval_seconds=seconds * float(rng.uniform(3, 12)),
        warm_steps=3,
        attempts=[int(steps * 0.5)] if of.habits.attempts else [],
        skew=None,
        work=np.ones(steps),
    )
    surroundings = replace(
        of.surroundings,
        clocks=rng.normal(0, rng.choice([0.02, 1.5]), layout.nodes),
        inlet=24 + rng.normal(0, 1.5, layout.nodes),
        silent=[],
    )
    scrape, rows = float(rng.choice([15, 30, 60])), bool(rng.random() < 0.5)
    length = replace(of.length, step_seconds=seconds, steps=steps, scrape=scrape, rows=rows)
    scenario = Written(kind, seed, layout, length, compute, communication, habits, surroundings)
    if kind in (*WRITERS, "ckpts"):
        scenario.by = _writers(rng, layout)
    if kind == PAUSES:
        scenario.faults = [_still(rng, of.faults[0], layout, steps * seconds)]
    elif kind in WRITERS:
        scenario.faults = [_slow_writer(rng, of.faults[0], scenario)]
    return scenario


def _writers(rng: Generator, layout: Layout) -> Bools:
    """All, one of each node, or a replica on three nodes and more: of two either could be slow."""
    every = np.ones(layout.ranks, bool)
    of_node, replica = layout.local == 0, layout.dp_of == 0
    some = (every, of_node, replica if len(set(layout.node[replica])) > 2 else every)
    return some[int(rng.integers(len(some)))]


def _still(rng: Generator, fault: Fault, layout: Layout, run_seconds: float) -> Still:
    """Once as often as not; together for 2 % of the run at least."""
    rank = int(rng.integers(layout.ranks))
    count = int(rng.choice([1, 1, 2, 3, 5]))
    shares = np.sort(rng.uniform(0.1, 0.95, count))
    lengths = np.exp(rng.uniform(np.log(15), np.log(240), count))
    lengths = lengths * max(1.0, 0.02 * run_seconds / lengths.sum())
    node = int(layout.node[rank])
    there = {"rank": rank, "node": node, "ranks": [rank], "nodes": [node]}
    when = {"begin": float(shares[0]), "end": 1.1}
    moments = tuple(zip(shares.tolist(), lengths.tolist(), strict=True))
    return Still(**vars(fault) | there | when, moments=moments)


def _slow_writer(rng: Generator, fault: Fault, scenario: Scenario) -> Fault:
    layout = scenario.layout
    rank = int(rng.choice(np.flatnonzero(scenario.writers)))
    node = int(layout.node[rank])
    ranks = [rank] if fault.kind == "ckptrank" else np.flatnonzero(layout.node == node).tolist()
    begin = -1.0 if rng.random() < 0.3 else float(rng.uniform(0.1, 0.6))
    return replace(
        fault, rank=rank, node=node, ranks=ranks, nodes=[node], shape="step", begin=begin,
        end=1.1, factor=float(np.exp(rng.uniform(np.log(1.4), np.log(3)))),
    )  # fmt: skip
