"""Draws a run: its cluster and program here, what it is about in `periods`, then its faults."""

import math

import numpy as np

from tests.benchmarks.foreign import kinds
from tests.benchmarks.foreign.faults import SHAPES, STOP, Fault
from tests.benchmarks.foreign.kinds import CHECKPOINT_FAULTS, NETWORK_FAULTS, parts
from tests.benchmarks.foreign.periods import (
    draw_attempts,
    draw_habits,
    draw_surroundings,
    draw_work,
)
from tests.benchmarks.foreign.scenario import Communication, Compute, Layout, Length, Scenario
from tests.benchmarks.foreign.streams import stream
from tests.benchmarks.simulated.arrays import Generator

SIZES = (
    (8, 1, 8, 1, 1), (8, 2, 8, 1, 1), (8, 2, 2, 2, 2), (8, 4, 4, 2, 1), (16, 4, 16, 1, 1),
    (16, 8, 4, 1, 4), (16, 2, 8, 1, 2), (16, 8, 2, 4, 2), (32, 8, 32, 1, 1), (32, 8, 4, 1, 8),
    (32, 8, 4, 4, 2), (32, 4, 16, 2, 1), (64, 8, 64, 1, 1), (64, 8, 8, 1, 8), (64, 8, 8, 2, 4),
    (64, 8, 4, 4, 4), (64, 8, 8, 8, 1), (128, 8, 16, 1, 8), (128, 8, 8, 4, 4), (128, 8, 32, 4, 1),
    (128, 8, 128, 1, 1),
)  # fmt: skip
"""Ranks, ranks of a node, replicas, stages, width."""
ONE_SWITCH = 99
"""Nodes under a leaf switch where a single one has them all."""


def draw(kind: str, seed: int) -> Scenario:
    """The run of a kind and seed."""
    rng = stream("scenario", kind, seed)
    wanted = parts(kind)
    layout = _layout(rng, wanted)
    length = _length(rng, layout)
    compute = _compute(rng, wanted, layout)
    communication = _communication(rng, wanted, layout)
    habits = draw_habits(rng, wanted, length)
    surroundings = draw_surroundings(rng, wanted, layout)
    habits.attempts = draw_attempts(rng, wanted, length)
    surroundings.decoys = "decoys" in wanted or bool(rng.random() < 0.3)
    draw_work(rng, wanted, layout, length, habits)
    if "mixedfleet" in wanted:
        slower = rng.permutation(layout.nodes)[: max(1, layout.nodes // 2)]
        of_them = np.isin(layout.node, slower)
        compute.level = compute.level * np.where(of_them, rng.uniform(1.06, 1.15), 1.0)
    if "badscrape" in wanted:
        surroundings.lost = float(rng.uniform(0.2, 0.4))
        length.rows = False
    habits.collects_together = "gcsync" in wanted or bool(rng.random() < 0.15)
    surroundings.begin = 1.7955e9 + float(rng.integers(0, 10**6))
    scenario = Scenario(kind, seed, layout, length, compute, communication, habits, surroundings)
    scenario.faults = _faults(rng, scenario, [each for each in wanted if each in kinds.INJECTED])
    return scenario


def _layout(rng: Generator, wanted: list[str]) -> Layout:
    """One of the sizes in which what is wanted can be."""
    pool = list(SIZES)
    if "nvlink" in wanted:
        pool = [size for size in pool if size[4] > 1]
    if "heavystage" in wanted:
        pool = [size for size in pool if size[3] > 1]
    if any(kind in NETWORK_FAULTS for kind in wanted):
        pool = [size for size in pool if size[0] // size[1] >= 3]
    if "leaf" in wanted:
        pool = [size for size in pool if size[0] // size[1] >= 8]
    if any(kind in kinds.OF_NODES for kind in wanted):  # of two nodes either could be the slow one
        pool = [size for size in pool if size[0] // size[1] >= 3]
    if len(wanted) > 1:
        pool = [size for size in pool if size[0] >= 16]
    ranks, per_node, dp, pp, tp = pool[rng.integers(len(pool))]
    return Layout(ranks, per_node, dp, pp, tp, bool(pp > 1 and rng.random() < 0.25))


def _length(rng: Generator, layout: Layout) -> Length:
    """Minutes for all, hours for some of at most 64 ranks; a pipeline's steps cost more to walk."""
    staged = layout.pp > 1
    long = bool(rng.random() < 0.35) and layout.ranks <= 64
    if long:
        step_seconds = float(rng.uniform(2.5, 6))
        hours = rng.uniform(1, 2.6)
        steps = int(min(hours * 3600 / step_seconds, 1500 if staged else 2600))
        scrape = float(rng.choice([15, 30]))
    else:
        step_seconds = float(rng.uniform(0.45, 1.6))
        minutes = rng.uniform(5, 16)
        steps = int(min(minutes * 60 / step_seconds, 700 if staged else 1100))
        scrape = float(rng.choice([10, 15]))
    rows = not (long and rng.random() < 0.4)
    return Length(step_seconds, steps, scrape, rows)


def _compute(rng: Generator, wanted: list[str], layout: Layout) -> Compute:
    microbatches = 1 if layout.pp == 1 else int(rng.choice([1, 2])) * layout.pp
    clock_share = float(rng.uniform(0.65, 0.9))
    weight = np.ones(layout.pp)
    if layout.pp > 1:  # the last stage has the head, the first one the embedding
        weight[-1] = 1 + rng.uniform(0, 0.05)
        weight[0] = 1 + rng.uniform(0, 0.03)
    if "heavystage" in wanted:
        stage = rng.integers(layout.pp)
        weight[stage] *= rng.uniform(1.12, 1.4)
    noise, memory = float(rng.uniform(0.004, 0.02)), float(rng.uniform(0.2, 0.8))
    tail, node_noise = float(rng.uniform(0.001, 0.01)), float(rng.uniform(0.001, 0.006))
    if "noisy" in wanted:
        noise, tail, node_noise = float(rng.uniform(0.03, 0.06)), 0.03, 0.015
    level = np.exp(rng.normal(0, rng.uniform(0.005, 0.015), layout.ranks))
    silicon = np.exp(rng.normal(0, 0.03, layout.ranks))
    # Those in the back of the case get the air of those in front.
    cooling = np.exp(rng.normal(0, 0.05, layout.ranks)) * (1 + 0.04 * (layout.local >= 4))
    return Compute(
        microbatches, clock_share, weight, noise, memory, tail, node_noise, level, silicon, cooling
    )


def _communication(rng: Generator, wanted: list[str], layout: Layout) -> Communication:
    per_node, nodes = layout.per_node, layout.nodes
    overlap, buckets = bool(rng.random() < 0.6), int(rng.choice([4, 8, 16]))
    sharded = bool(rng.random() < 0.4)
    clip = bool(layout.pp * layout.tp > 1 or rng.random() < 0.5)
    spin = bool(rng.random() < 0.4)
    waits_in_other = bool(rng.random() < 0.65)
    share = float(rng.uniform(0.08, 0.22))
    if any(kind in NETWORK_FAULTS for kind in wanted):
        share = float(rng.uniform(0.15, 0.3))
    return Communication(
        overlap=overlap, buckets=buckets, sharded=sharded, clip=clip, spin=spin,
        waits_in_other=waits_in_other, share=share,
        rails=per_node if per_node >= 4 and rng.random() < 0.75 else 1,
        fabric="tcp" if per_node <= 2 and rng.random() < 0.6 else "ib",
        leaf_size=4 if nodes >= 8 else ONE_SWITCH,
        uplinks=4,
        topology=bool(nodes >= 8 and rng.random() < 0.6),
    )  # fmt: skip


def _faults(rng: Generator, scenario: Scenario, wanted: list[str]) -> list[Fault]:
    """One or two; two are of different ranks, and of different nodes where that can be."""
    faults = [_fault(rng, scenario, kind) for kind in wanted]
    if len(faults) == 2 and set(faults[0].ranks) & set(faults[1].ranks):
        for _ in range(50):
            faults[1] = _fault(rng, scenario, wanted[1])
            if not set(faults[0].nodes) & set(faults[1].nodes):
                break
    return faults


def _fault(rng: Generator, scenario: Scenario, kind: str) -> Fault:
    layout, length = scenario.layout, scenario.length
    communication = scenario.communication
    rank = int(rng.integers(layout.ranks))
    node = int(layout.node[rank])
    loaders = np.flatnonzero(layout.pp_of == 0)
    if kind == "datarank":
        rank = int(rng.choice(loaders))
        node = int(layout.node[rank])
    if kind == "datanode":
        node = int(layout.node[rng.choice(loaders)])
    if kind in CHECKPOINT_FAULTS:
        rank = int(rng.choice(np.flatnonzero(scenario.writers)))
        node = int(layout.node[rank])
    factor = float(np.exp(rng.uniform(math.log(1.05), math.log(1.9))))
    if kind in CHECKPOINT_FAULTS:
        factor = float(rng.uniform(1.8, 5))
    shape = str(rng.choice(SHAPES))
    if kind in CHECKPOINT_FAULTS:
        shape = str(rng.choice(["step", "ramp", "start"]))
    if kind in kinds.STOPS:
        shape = STOP
    if kind == "portflap":
        shape = str(rng.choice(["step", "pulse", "onoff"]))
    begin, end = float(rng.uniform(0.2, 0.6)), 1.1
    if shape == "step" and rng.random() < 0.4:
        end = begin + float(rng.uniform(0.2, 0.4))
    if shape == "pulse":
        end = begin + float(rng.uniform(0.04, 0.1))
    if shape == "start":
        begin = -1.0
    if kind in kinds.STOPS:
        begin = float(rng.uniform(0.4, 0.85))
    seconds = length.steps * length.step_seconds
    period = float(max(rng.uniform(0.06, 0.15) * seconds, 8 * length.step_seconds))
    duty = float(rng.uniform(0.35, 0.6))
    drawn = float(rng.normal(0, 1))
    slow_to_change = kind in ("thermal", "power", "powernode")
    flips = np.cumsum(rng.exponential(0.12 if slow_to_change else 0.06, 200))
    nodes, leaf = [node], None
    if kind == "leaf":
        leaf = int(rng.integers(math.ceil(layout.nodes / communication.leaf_size)))
        under = range(layout.nodes)
        nodes = [each for each in under if each // communication.leaf_size == leaf]
    scope = "rank"
    if kind in kinds.OF_NODES:
        scope = "node"
    elif kind in NETWORK_FAULTS:
        scope = "link"
    whole = np.flatnonzero(np.isin(layout.node, nodes))
    return Fault(
        kind=kind, scope=scope, rank=rank, node=node, factor=factor, shape=shape, begin=begin,
        end=end, period=period, duty=duty, drawn=drawn, flips=flips,
        ranks=[rank] if scope == "rank" else [int(each) for each in whole],
        nodes=nodes, rail=int(rng.integers(communication.rails)), leaf=leaf,
    )  # fmt: skip
