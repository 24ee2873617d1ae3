"""Labelled synthetic op traces: structure, work, noise and slow workers, all drawn from a seed.

The times follow from the what-if simulator: a trace is what such a run would have left.
"""

from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.graph import BACKWARD, COMPUTE, FORWARD, GC, OPTIMIZER
from lockstep.analyzer.operations.whatif.simulate import retimed
from lockstep.analyzer.shapes.operations import Floats, Layout, Trace, program

SECONDS = {
    FORWARD: 0.2, BACKWARD: 0.4, OPTIMIZER: 0.02, GC: 0.0, "params-all-gather": 0.1,
    "grads-reduce-scatter": 0.2, "layernorm-grads-all-reduce": 0.003,
    "embedding-grads-all-reduce": 0.05, "optimizer-clip-main-grad": 0.005,
}  # fmt: skip
"""Own time of operations, about that of the public trace AR; a stage's computation is
divided over its chunks."""
TRANSFER_SECONDS = 0.002
GC_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Slow:
    """A worker whose computation takes `factor` times as long, from a step until before another."""

    dp: int
    stage: int
    factor: float
    from_step: int = 0
    to_step: int | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """A run to make up.

    Attributes:
        dp: Replicas.
        pp: Stages.
        vpp: Chunks in each stage.
        micro_batches: Of a replica in a step; with chunks a multiple of `pp`.
        steps: How many.
        last_stage: How much longer the last stage computes, by design (embedding and loss).
        lengths: Longest over shortest micro-batch; each is drawn between, for all stages alike.
        gc_every: Steps between garbage collections of a worker, each in its own step; 0 = none.
        noise: Spread of every operation's own time, as a ratio.
        slow: Who is slow.
        seed: Of all that is drawn.
    """

    dp: int = 4
    pp: int = 4
    vpp: int = 1
    micro_batches: int = 8
    steps: int = 20
    last_stage: float = 1.0
    lengths: float = 1.0
    gc_every: int = 0
    noise: float = 0.01
    slow: tuple[Slow, ...] = ()
    seed: int = 0


def trace(scene: Scene) -> Trace:
    """What the run would have left.

    Raises:
        ValueError: Interleaving needs micro-batches in multiples of the stages.
    """
    plan = _planned(scene)
    return retimed(plan, build(plan), _own(scene, plan))


def _planned(scene: Scene) -> Trace:
    """The operations in program order, each a second, one after the other."""
    rows = [
        (stage, number, one)
        for stage in range(scene.pp)
        for number, one in enumerate(
            program(stage, scene.pp, scene.vpp, scene.micro_batches, dp=scene.dp)
        )
    ]
    stage = np.array([row[0] for row in rows])
    chunk = np.array([row[2].chunk for row in rows])
    optype = np.array([row[2].optype for row in rows])
    # As in public traces, transfers do not tell their micro-batch; interleaved, they must.
    told = np.isin(optype, COMPUTE) | (scene.vpp > 1)
    layout = Layout(dp=scene.dp, pp=scene.pp, vpp=scene.vpp)
    start = np.array([float(row[1]) for row in rows])
    shape = (len(rows), scene.dp, scene.steps)
    return Trace(
        name=f"synthetic-{scene.seed}",
        layout=layout,
        steps=np.arange(scene.steps),
        optype=optype,
        seq=_numbered(stage, optype),
        stage=stage,
        chunk=np.where(told | ~np.char.endswith(optype, ("-send")), chunk, -1),
        global_chunk=np.where(told & (chunk >= 0), chunk * scene.pp + stage, -1),
        micro_batch=np.where(told, [row[2].micro_batch for row in rows], -1),
        start=np.broadcast_to(start[:, None, None], shape),
        duration=np.ones(shape),
        ranks=np.arange(scene.pp)[None, :] * scene.dp + np.arange(scene.dp)[:, None],
    )


def _numbered(stage: np.ndarray, optype: np.ndarray) -> np.ndarray:
    seen: dict[tuple[int, str], int] = {}
    found = []
    for key in zip(stage.tolist(), optype.tolist(), strict=True):
        seen[key] = seen.get(key, -1) + 1
        found.append(seen[key])
    return np.array(found)


def _own(scene: Scene, plan: Trace) -> Floats:
    """(K, D, S) seconds."""
    dice = np.random.default_rng(scene.seed)
    shape = (len(plan.optype), scene.dp, scene.steps)
    compute = plan.of(*COMPUTE)
    usual = np.array([SECONDS.get(name, TRANSFER_SECONDS) for name in plan.optype.tolist()])
    usual[compute] /= scene.vpp
    usual[compute & (plan.global_chunk == scene.pp * scene.vpp - 1)] *= scene.last_stage
    own = usual[:, None, None] * np.exp(scene.noise * dice.standard_normal(shape))
    work = scene.lengths ** dice.random((scene.micro_batches, scene.dp, scene.steps))
    own[compute] *= work[plan.micro_batch[compute]]
    if scene.gc_every:
        phase = dice.integers(scene.gc_every, size=(scene.pp, scene.dp, 1))
        due = (np.arange(scene.steps) + phase) % scene.gc_every == 0
        collected = plan.of(GC)
        own[collected] = np.where(due[plan.stage[collected]], GC_SECONDS, 0.0)
    for one in scene.slow:
        rows = np.flatnonzero(compute & (plan.stage == one.stage))
        own[rows, one.dp, one.from_step : one.to_step] *= one.factor
    return own
