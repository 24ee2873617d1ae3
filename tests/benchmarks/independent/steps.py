"""How long each step of each rank takes, and for whom it waits.

A step is data, forward and backward of its microbatches through the stages (1F1B), the gradients
of a stage, a last word of all ranks, the optimizer. Ranks wait for each other in groups, so who is
slow shows as waiting of the others. Times of a step count from the last word of the step before.
"""

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from tests.benchmarks.independent.layout import World, groups_cross
from tests.benchmarks.independent.noise import Noise
from tests.benchmarks.simulated.arrays import Floats

FORWARD, BACKWARD = "forward", "backward"


@dataclass
class Effects:
    """What faults change; (steps, ranks) where nothing else is said. Neutral: `no_effects`.

    Attributes:
        compute, optimizer, checkpoint: Factors.
        data, other, gc: Seconds more; pause is seconds that a rank stands still before forward.
        adapter: (steps, nodes, ranks of a node) factors of what crosses nodes.
        tp: (steps, stages, replicas) factors of tensor-parallel communication.
        leaf: (steps, nodes) factors likewise.
        stall: (steps, nodes, ranks of a node) seconds in which an adapter carries nothing.
    """

    compute: Floats
    data: Floats
    other: Floats
    optimizer: Floats
    pause: Floats
    checkpoint: Floats
    gc: Floats
    adapter: Floats
    tp: Floats
    leaf: Floats
    stall: Floats

    ADDED: ClassVar = frozenset({"data", "other", "pause", "gc", "stall"})

    def join(self, more: "Effects") -> None:
        """Both at once."""
        for each in fields(self):
            mine, others = getattr(self, each.name), getattr(more, each.name)
            both = mine + others if each.name in self.ADDED else mine * others
            setattr(self, each.name, both)


def no_effects(world: World) -> Effects:
    each = (world.steps, world.ranks)
    ports = (world.steps, world.layout.nodes, world.layout.per_node)
    return Effects(
        compute=np.ones(each), data=np.zeros(each), other=np.zeros(each),
        optimizer=np.ones(each), pause=np.zeros(each), checkpoint=np.ones(each),
        gc=np.zeros(each), adapter=np.ones(ports),
        tp=np.ones((world.steps, world.layout.pp, world.layout.dp)),
        leaf=np.ones(ports[:2]), stall=np.zeros(ports),
    )  # fmt: skip


@dataclass(frozen=True)
class Pass:
    """Forward or backward of one microbatch in one stage; (steps, replicas) seconds.

    Attributes:
        free: When the stage had nothing else to do; begin is after what it waited for, if anything.
    """

    stage: int
    what: str
    microbatch: int
    free: Floats
    begin: Floats
    end: Floats
    waits: bool


@dataclass(frozen=True)
class Parts:
    """Moments and seconds that a trace of operations shows; (steps, stages, replicas, width).

    Attributes:
        forward, backward: Seconds of a microbatch of length 1.
        stage_forward, stage_backward, hop: (steps, stages, replicas) of a stage with its
            communication, and to the next one; None where parameters are sharded.
        arrived: When a rank is ready; together is when its group is, (steps, stages, replicas).
        computed, synced: When backward, and its gradients, are done.
        gathered_forward, gathered_backward: Seconds in which parameters are gathered; or 0.
        length: Microbatches of length 1 that a step amounts to.
    """

    forward: Floats
    backward: Floats
    stage_forward: Floats | None
    stage_backward: Floats | None
    hop: Floats | None
    data: Floats
    other: Floats
    pause: Floats
    optimizer: Floats
    arrived: Floats
    together: Floats
    computed: Floats
    synced: Floats
    gathered_forward: Floats
    gathered_backward: Floats
    length: Floats


@dataclass(frozen=True)
class Timeline:
    """Seconds; (steps, ranks) where nothing else is said.

    Attributes:
        last_word: (steps,) when all ranks have synced.
        begin: When the step begins, before 0 of it is the last word of the step before.
        phases: By phase of the contract; they sum to wall.
        own: Seconds outside of waiting; waits are the others, by group.
    """

    last_word: Floats
    begin: Floats
    wall: Floats
    own: Floats
    phases: dict[str, Floats]
    waits: dict[str, Floats]
    parts: Parts


def one_forward_one_backward(
    microbatches: int,
    forward: Floats,
    backward: Floats,
    length: Floats,
    hop: Floats,
    start: Floats,
    passes: list[Pass] | None = None,
) -> tuple[Floats, Floats]:
    """When each stage is done, and for how long it waited.

    Args:
        microbatches: Of a step.
        forward: (steps, stages, replicas) seconds of a microbatch; backward likewise.
        backward: As forward.
        length: (steps, replicas, microbatches) factors.
        hop: (steps, stages - 1, replicas) seconds between neighbours.
        start: (steps, stages, replicas) seconds.
        passes: Filled with each pass where it is given.
    """
    stages = forward.shape[1]
    free, wait = start.copy(), np.zeros_like(start)
    forward_end: dict[tuple[int, int], Floats] = {}
    backward_end: dict[tuple[int, int], Floats] = {}
    orders = [_order(stage, stages, microbatches) for stage in range(stages)]
    done = [0] * stages
    while any(count < len(order) for count, order in zip(done, orders, strict=True)):
        for stage, order in enumerate(orders):
            while done[stage] < len(order):
                what, number = order[done[stage]]
                ends, seconds = forward_end, forward
                source, link = stage - 1, stage - 1
                if what == BACKWARD:
                    ends, seconds = backward_end, backward
                    source, link = stage + 1, stage
                waits = 0 <= source < stages
                if waits and (source, number) not in ends:
                    break
                idle = free[:, stage].copy()
                begin = idle
                if waits:
                    begin = np.maximum(idle, ends[source, number] + hop[:, link])
                    wait[:, stage] += begin - idle
                end = begin + seconds[:, stage] * length[:, :, number]
                if passes is not None:
                    passes.append(Pass(stage, what, number, idle, begin, end, waits))
                free[:, stage] = end
                ends[stage, number] = end
                done[stage] += 1
    return free, wait


def _order(stage: int, stages: int, microbatches: int) -> list[tuple[str, int]]:
    """Passes of a stage: as many forward as there are stages after it, then in turns."""
    ahead = min(stages - stage - 1, microbatches)
    order = [(FORWARD, number) for number in range(ahead)]
    for number in range(microbatches):
        if ahead + number < microbatches:
            order.append((FORWARD, ahead + number))
        order.append((BACKWARD, number))
    return order


def simulate(world: World, noise: Noise, effects: Effects) -> Timeline:
    """The run under these effects; without draws, so runs with and without them compare."""
    stages, replicas, width = world.grid
    steps, ranks = world.steps, world.ranks

    def grid(values: Floats) -> Floats:
        return values.reshape(len(values), stages, replicas, width)

    def flat(values: Floats) -> Floats:
        return np.broadcast_to(values, (steps, stages, replicas, width)).reshape(steps, ranks)

    weight = np.repeat(world.stage_weight, replicas * width)
    forward = grid(world.forward * weight * noise.forward * effects.compute)
    backward = grid(world.backward * weight * noise.backward * effects.compute)
    length = noise.length.sum(2)[:, None, :, None]
    data, pause = grid(noise.data + effects.data), grid(effects.pause)
    other = grid(noise.other + effects.other + noise.gc + effects.gc)
    optimizer = grid(noise.optimizer * effects.optimizer)
    checkpoint = grid(noise.checkpoint * effects.checkpoint)
    evaluation = grid(noise.evaluation)
    # All wait for each other after a checkpoint or an evaluation.
    barrier = (noise.checkpoint_steps | noise.evaluation_steps)[:, None, None, None]
    own_tail = optimizer + checkpoint + evaluation
    latest = own_tail.max((1, 2, 3), keepdims=True) + world.world_seconds
    tail = np.where(barrier, latest, own_tail)
    tail_wait = tail - own_tail
    begin = np.concatenate([tail[:1], tail[:-1]])
    arrived = begin + data + other + pause
    cross = grid((effects.adapter * effects.leaf[:, :, None]).reshape(steps, ranks))
    stall = grid(effects.stall.reshape(steps, ranks))
    together = arrived.max(3)
    none = np.zeros_like(forward)
    stage_forward = stage_backward = hop = None
    gathered_forward = gathered_backward = tp_forward = tp_backward = none
    if world.sharded:
        together = np.broadcast_to(together.max(2, keepdims=True), together.shape)
        slower = cross.max((1, 2)) if world.dp_crosses else np.ones((1, 1))
        gather = world.dp_seconds * noise.dp * slower[:, None, :] + stall.max((1, 2))[:, None, :]
        own_forward, own_backward = forward * length, backward * length
        all_forward = own_forward.max(2, keepdims=True) + gather[:, :, None, :] * 0.4
        all_backward = own_backward.max(2, keepdims=True) + gather[:, :, None, :] * 0.6
        gathered_forward, gathered_backward = all_forward - own_forward, all_backward - own_backward
        end = together + (all_forward + all_backward)[..., 0]
        pipeline_wait = np.zeros_like(end)
    else:
        exchange = world.tp_seconds * noise.tp * effects.tp
        stage_forward = forward.max(3) + exchange
        stage_backward = backward.max(3) + 2 * exchange
        tp_forward = (stage_forward[..., None] - forward) * length
        tp_backward = (stage_backward[..., None] - backward) * length
        hop = _hops(world, noise, cross, stall)
        end, pipeline_wait = one_forward_one_backward(
            world.microbatches, stage_forward, stage_backward, noise.length, hop,
            np.ascontiguousarray(together),
        )  # fmt: skip
    first_wait = together[..., None] - arrived
    computed = np.broadcast_to(end[..., None], forward.shape)
    synced = computed
    if replicas > 1 and not world.sharded:
        crosses = groups_cross(world)
        gradients = world.dp_seconds * noise.dp * np.where(crosses, cross.max(2), 1)
        gradients = gradients + np.where(crosses, stall.max(2), 0)
        synced = np.broadcast_to((computed.max(2) + gradients)[:, :, None, :], forward.shape)
    gradient_wait = synced - computed
    last_word = synced.max((1, 2, 3))
    if world.has_world_group:
        last_word = last_word + world.world_seconds * noise.world
    last_wait = last_word[:, None, None, None] - synced
    saved = noise.checkpoint_steps[:, None, None, None]
    phases = {
        "data": data,
        "forward": pause + forward * length + first_wait + tp_forward + gathered_forward,
        "backward": backward * length + tp_backward + gathered_backward,
        "grad_sync": gradient_wait,
        "optimizer": last_wait + optimizer,
        "checkpoint": checkpoint + np.where(saved, tail_wait, 0),
        "eval": evaluation + np.where(barrier & ~saved, tail_wait, 0),
        "other": other + pipeline_wait[..., None],
    }
    own = data + other + pause + forward * length + backward * length
    own = own + optimizer + checkpoint + evaluation
    shard_wait = first_wait + gathered_forward + gathered_backward if world.sharded else 0.0
    waits = {
        "tp": first_wait + tp_forward + tp_backward if width > 1 else none,
        "dp": gradient_wait + shard_wait,
        "pp": pipeline_wait[..., None],
        "world": last_wait + tail_wait,
    }
    parts = Parts(
        forward, backward, stage_forward, stage_backward, hop, data, other, pause, optimizer,
        arrived, together, computed, synced, gathered_forward, gathered_backward, length,
    )  # fmt: skip
    timeline = Timeline(
        last_word, flat(begin), last_word[:, None] + flat(tail) - flat(begin), flat(own),
        {name: flat(value) for name, value in phases.items()},
        {name: flat(value) for name, value in waits.items()},
        parts,
    )  # fmt: skip
    # The model must account for every second.
    for sums in (timeline.own + sum(timeline.waits.values()), sum(timeline.phases.values())):
        assert np.abs(timeline.wall - sums).max() < 1e-5 * world.step_seconds
    return timeline


def _hops(world: World, noise: Noise, cross: Floats, stall: Floats) -> Floats:
    """(steps, stages - 1, replicas) seconds from stage to stage."""
    stages, replicas, _ = world.grid
    factor = np.ones((world.steps, stages - 1, replicas))
    seconds = np.zeros_like(factor)
    node = world.node.reshape(world.grid)
    for stage in range(stages - 1):
        away = (node[stage] != node[stage + 1]).any(1)
        slower = np.maximum(cross[:, stage], cross[:, stage + 1]).max(2)
        longer = np.maximum(stall[:, stage], stall[:, stage + 1]).max(2)
        factor[:, stage] = np.where(away, slower, 1)
        seconds[:, stage] = np.where(away, longer, 0)
    of_pp = noise.pp[:, : stages - 1]
    return world.pp_seconds * of_pp * factor + seconds / (2 * world.microbatches)
