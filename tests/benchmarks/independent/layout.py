"""Which ranks a simulated run has, where they stand, and how long parts of a step should take."""

import math
from dataclasses import dataclass

import numpy as np

from tests.benchmarks.simulated.arrays import Bools, Floats, Generator, Ints

FEWEST_STEPS = 90
MOST_ROWS = 390_000
"""Of steps.parquet: large runs have longer steps."""
MOST_STAGES = 16
WIDTHS = (2, 4, 8)
"""Of tensor parallelism."""


@dataclass(frozen=True)
class Plan:
    """What a run is to be, before anything of it is drawn.

    Attributes:
        benign: What slows it though nobody is at fault; None for a healthy or injected run.
        layout: Kind of layout; None draws one.
        communication: Share of a step that is communication; None draws one.
        topology: Whether nodes have a told place under switches; None draws it.
        offset: Seconds from the first moment that a run may begin.
        lost: Share of scrapes that fail.
        tokens: Of a microbatch.
    """

    name: str
    run: str
    benign: str | None
    layout: str | None
    communication: float | None
    topology: bool
    checkpoints: bool
    prefix: str
    offset: float
    lost: float
    operations: bool
    tokens: int
    parameters: float
    without_gpu: bool
    outcome_told: bool


@dataclass(frozen=True)
class Layout:
    """Sizes: nodes, ranks of a node, replicas, stages, tensor-parallel width."""

    kind: str
    nodes: int
    per_node: int
    dp: int
    pp: int
    tp: int

    @property
    def ranks(self) -> int:
        return self.nodes * self.per_node


@dataclass(frozen=True)
class World:
    """A cluster and the job on it; seconds are planned ones, of a rank without any noise.

    Attributes:
        step_seconds: About how long a step takes.
        forward, backward: Seconds of a microbatch in a stage of weight 1.
        tp_seconds, pp_seconds: Seconds of communication of a microbatch.
        dp_seconds, world_seconds: Seconds of communication of a step.
        stage_weight: (stages,) times the work of an even share.
        node, local, dp_of, pp_of, tp_of: (ranks,) place and coordinates.
        lottery: (ranks,) share by which silicon is slower than the usual.
        rail: Whether each GPU has its own adapter.
        leaf_size: Nodes under a leaf switch; 0 is one switch for all.
        spread: Coefficient of variation of compute from step to step.
    """

    layout: Layout
    step_seconds: float
    steps: int
    microbatches: int
    forward: float
    backward: float
    tp_seconds: float
    pp_seconds: float
    dp_seconds: float
    world_seconds: float
    data: float
    other: float
    optimizer: float
    stage_weight: Floats
    node: Ints
    local: Ints
    dp_of: Ints
    pp_of: Ints
    tp_of: Ints
    dp_crosses: bool
    pp_crosses: bool
    rail: bool
    fabric: str
    adapters: int
    leaf_size: int
    topology: bool
    lottery: Floats
    jitter_kind: str
    spread: float
    gpu: str

    @property
    def ranks(self) -> int:
        return self.layout.ranks

    @property
    def sharded(self) -> bool:
        """Whether parameters are gathered for each step (FSDP)."""
        return self.layout.kind == "fsdp"

    @property
    def has_world_group(self) -> bool:
        return self.layout.pp * self.layout.tp > 1

    @property
    def newer_gpu(self) -> bool:
        return "H100" in self.gpu

    @property
    def grid(self) -> tuple[int, int, int]:
        """Stages, replicas, width: the order of ranks."""
        return self.layout.pp, self.layout.dp, self.layout.tp


def draw_layout(rng: Generator, wanted: str | None) -> Layout:
    while True:
        sizes, odds = [2, 3, 4, 6, 8, 12, 16, 32], [0.14, 0.06, 0.22, 0.1, 0.22, 0.08, 0.12, 0.06]
        nodes = int(rng.choice(sizes, p=odds))
        per_node = int(rng.choice([4, 8], p=[0.4, 0.6]))
        ranks = nodes * per_node
        kind = wanted or str(
            rng.choice(
                ["dp", "fsdp", "tpdp", "ppdp", "3d", "ppnode", "dp1"],
                p=[0.2, 0.14, 0.16, 0.12, 0.2, 0.1, 0.08],
            )
        )
        widths = [width for width in WIDTHS if width <= per_node]
        tp = pp = 1
        if kind == "tpdp":
            tp = int(rng.choice(widths))
        elif kind == "ppdp":
            stages = (2, 3, 4, 6, 8, 12, 16)
            fit = [count for count in stages if ranks % count == 0 and count <= ranks // 2]
            pp = int(rng.choice(fit))
        elif kind == "3d":
            tp = int(rng.choice(widths))
            rest = ranks // tp
            fit = [count for count in (2, 3, 4, 8) if rest % count == 0 and rest // count >= 2]
            if not fit:
                continue
            pp = int(rng.choice(fit))
        elif kind == "ppnode":
            pp = nodes
            tp = int(rng.choice([1, *widths]))
        elif kind == "dp1":
            tp = per_node if rng.random() < 0.7 else per_node // 2
            pp = ranks // tp
        if pp <= MOST_STAGES:
            return Layout(kind, nodes, per_node, ranks // (pp * tp), pp, tp)


def draw_world(rng: Generator, plan: Plan) -> World:
    layout = draw_layout(rng, plan.layout)
    ranks, dp, pp, tp = layout.ranks, layout.dp, layout.pp, layout.tp
    step_seconds, steps = _length(rng, ranks)
    microbatches = _microbatches(rng, pp)
    bound = rng.uniform(0.05, 0.2)
    if plan.communication is not None:
        bound = plan.communication
    compute = step_seconds * (1 - bound) * rng.uniform(0.85, 0.93)
    forward = compute / (3 * (microbatches + pp - 1))
    backward = 2 * forward * rng.uniform(0.9, 1.1)
    tp_seconds = forward * rng.uniform(0.04, 0.15) if tp > 1 else 0.0
    pp_seconds = forward * rng.uniform(0.01, 0.06)
    dp_seconds = bound * step_seconds * rng.uniform(0.7, 1.0) if dp > 1 else 0.0
    world_seconds = step_seconds * rng.uniform(0.001, 0.004)
    data = step_seconds * rng.uniform(0.002, 0.03)
    other = step_seconds * rng.uniform(0.002, 0.012)
    optimizer = step_seconds * rng.uniform(0.01, 0.04)
    weight = _stage_weight(rng, pp, uneven=plan.benign == "stage")
    rank = np.arange(ranks)
    node = rank // layout.per_node
    by_stage = node.reshape(pp, dp, tp)
    own_adapters = bool(rng.random() < 0.5)
    fabric = "ib" if rng.random() < 0.75 or layout.nodes > 4 else "eth"
    rail = own_adapters and fabric == "ib"
    leaf_size = int(rng.choice([2, 4])) if layout.nodes >= 4 else 0
    topology = bool(leaf_size and (plan.topology or rng.random() < 0.4))
    lottery = np.clip(rng.normal(0, rng.uniform(0.003, 0.011), ranks), -0.025, 0.03)
    return World(
        layout=layout, step_seconds=step_seconds, steps=steps, microbatches=microbatches,
        forward=forward, backward=backward, tp_seconds=tp_seconds, pp_seconds=pp_seconds,
        dp_seconds=dp_seconds, world_seconds=world_seconds, data=data, other=other,
        optimizer=optimizer, stage_weight=weight, node=node, local=rank % layout.per_node,
        dp_of=rank // tp % dp, pp_of=rank // (dp * tp), tp_of=rank % tp,
        dp_crosses=dp > 1 and bool((by_stage != by_stage[:, :1]).any()),
        pp_crosses=pp > 1 and layout.nodes > 1,
        rail=rail, fabric=fabric, adapters=layout.per_node if rail else 1,
        leaf_size=leaf_size, topology=topology, lottery=lottery,
        jitter_kind=str(rng.choice(["gamma", "lognormal"])),
        spread=float(np.exp(rng.uniform(math.log(0.003), math.log(0.025)))),
        gpu=str(rng.choice(["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"], p=[0.65, 0.35])),
    )  # fmt: skip


def _length(rng: Generator, ranks: int) -> tuple[float, int]:
    """Seconds of a step, and steps: ten minutes to two hours, less where many ranks are seen."""
    step_seconds = math.exp(rng.uniform(math.log(0.3), math.log(20)))
    seconds = float(np.clip(math.exp(rng.normal(math.log(1500), 0.6)), 600, 7200))
    seconds = max(600, min(seconds, 15 * 15000 / ranks))
    step_seconds = max(step_seconds, seconds * ranks / MOST_ROWS)
    steps = int(seconds / step_seconds)
    if steps < FEWEST_STEPS:
        return seconds / FEWEST_STEPS, FEWEST_STEPS
    return step_seconds, steps


def _microbatches(rng: Generator, pp: int) -> int:
    if pp > 1:
        return min(int(pp * rng.choice([1, 2, 4])), 32)
    return 1 if rng.random() < 0.6 else int(rng.choice([2, 4, 8]))


def _stage_weight(rng: Generator, pp: int, uneven: bool) -> Floats:
    """The first stage has the embedding, the last one the head."""
    weight = np.ones(pp)
    if pp > 1:
        weight[0] += rng.uniform(0, 0.08)
        weight[-1] += rng.uniform(0, 0.12)
        if uneven:
            weight[int(rng.choice([0, pp - 1]))] += rng.uniform(0.15, 0.5)
    return weight


def groups_cross(world: World) -> Bools:
    """(stages, width): whether the replicas of a stage stand on several nodes."""
    by_stage = world.node.reshape(world.grid)
    crossing: Bools = (by_stage != by_stage[:, :1]).any(axis=1)
    return crossing
