"""Forward and backward of a step: kernels, the host that launches them, who waits for whom."""

from dataclasses import dataclass

import numpy as np

from tests.benchmarks.foreign.effects import StepEffects
from tests.benchmarks.foreign.gradients import reduce
from tests.benchmarks.foreign.noise import Noise
from tests.benchmarks.foreign.pipeline import Pass, through
from tests.benchmarks.foreign.scenario import FASTEST, Scenario
from tests.benchmarks.simulated.arrays import Floats

HOST_SHARE = 0.5
"""Host time of a forward, of its kernels' time."""
HIDDEN = 0.85
"""Share of kernel time behind which the host can be late unseen."""


@dataclass(frozen=True)
class Work:
    """Of a microbatch where nothing else is said; (ranks,) seconds.

    Attributes:
        kernels: Of a forward; a backward has twice as much.
        forward, backward: With what the host is late.
        launching: Of the host, the same for all ranks.
        run_queue, throttled: Of the step.
    """

    kernels: Floats
    forward: Floats
    backward: Floats
    launching: float
    run_queue: Floats
    throttled: Floats


@dataclass(frozen=True)
class Exchanged:
    """(ranks,) seconds of the step.

    Attributes:
        end: Unix time in which all gradients are there.
        first_wait: For the tensor-parallel group before its first exchange.
        tp_forward, tp_backward: Waits of that group; pipeline those for other stages.
        gradients: Waiting after backward; in_collectives what their collectives last.
    """

    end: Floats
    first_wait: Floats
    tp_forward: Floats
    tp_backward: Floats
    pipeline: Floats
    gradients: Floats
    in_collectives: Floats


def planned_forward(scenario: Scenario) -> float:
    """Seconds of the kernels of a microbatch's forward: 72 % of a step are kernels, or bubble."""
    stages, count = scenario.layout.pp, scenario.compute.microbatches
    share = 0.72 if stages == 1 else 0.72 * count / (count + stages - 1)
    return scenario.length.step_seconds * share / 3 / count


def clock_factor(scenario: Scenario, clock: Floats) -> Floats:
    """By which kernels are longer at these clocks."""
    share = scenario.compute.clock_share
    return 1 - share + share * FASTEST / clock


def work(
    scenario: Scenario, noise: Noise, step: int, clock: Floats, drift: Floats, effects: StepEffects
) -> Work:
    """Kernels and hosts at these clocks; `drift` are factors of warm parts."""
    layout, compute, habits = scenario.layout, scenario.compute, scenario.habits
    planned, count = planned_forward(scenario), compute.microbatches
    chance = noise.chance[step]
    kernels = planned * compute.stage_weight[layout.pp_of] * habits.work[step]
    # Attention grows faster than the length of its sequences.
    kernels = kernels * noise.lengths[step, layout.dp_of] ** 1.15 * compute.level * drift
    kernels = kernels * clock_factor(scenario, clock) * effects.slower
    common = compute.node_noise * noise.nodes[step, layout.node]
    kernels = kernels * np.exp(compute.noise * noise.kernels[step] + common)
    kernels = kernels * (1 + noise.stalls[step])
    if step < habits.warm_steps:
        more = (habits.warm_factor - 1) / (1 + step)
        kernels = kernels * (1 + more * (0.9 + 0.2 * chance))
    elif scenario.warms_up_again(step):
        kernels = kernels * (2 + chance)
    launching = planned * habits.work[step] * HOST_SHARE
    host = launching / host_share(scenario, effects) * (1 + effects.memory[layout.node])
    late = np.maximum(0, host - HIDDEN * kernels)
    left = effects.host[layout.node]
    return Work(
        kernels=kernels,
        forward=kernels + late,
        backward=2 * kernels + late,
        launching=launching,
        run_queue=count * 2 * launching * (1 / left - 1) * 0.8,
        throttled=count * 2 * launching * (1 / effects.quota - 1) * 0.8,
    )


def host_share(scenario: Scenario, effects: StepEffects) -> Floats:
    """(ranks,) of a processor that a rank's thread has."""
    return effects.host[scenario.layout.node] * effects.quota


def exchange(
    scenario: Scenario, noise: Noise, step: int, begin: Floats, done: Work, effects: StepEffects,
    passes: list[Pass], transfers: Floats,
) -> Exchanged:  # fmt: skip
    """From the moments in which ranks have their data to those in which they have all gradients.

    Args:
        begin: (ranks,) unix time.
        passes: Of the pipeline, in order; transfers (groups,) seconds of all gradients.
    """
    layout, count = scenario.layout, scenario.compute.microbatches
    group, groups = layout.tp_group, layout.dp * layout.pp
    forward, backward, together = np.zeros(groups), np.zeros(groups), np.zeros(groups)
    np.maximum.at(forward, group, done.forward)
    np.maximum.at(backward, group, done.backward)
    np.maximum.at(together, group, begin)
    planned = planned_forward(scenario)
    first_wait = tp_forward = tp_backward = np.zeros(layout.ranks)
    if layout.tp > 1:
        inside = planned * 3 * count * 0.1 / count / 3 * effects.peer_links
        inside = inside * (1 + 0.05 * np.abs(noise.nodes[step, 0]))
        forward, backward = forward + inside, backward + 2 * inside
        first_wait = together[group] - begin
        tp_forward = count * (forward[group] - done.forward)
        tp_backward = count * (backward[group] - done.backward)

    def staged(values: Floats) -> Floats:
        return values.reshape(layout.dp, layout.pp).T

    forward, backward, together = staged(forward), staged(backward), staged(together)
    ends = together + count * (forward + backward)
    pipeline = np.zeros((layout.pp, layout.dp))
    if layout.pp > 1:
        ends = through(passes, together, forward, backward, planned * 0.03)
        pipeline = ends - together - count * (forward + backward)
    waiting = in_collectives = np.zeros((layout.pp, layout.tp, layout.dp))
    if layout.dp > 1:
        communication = scenario.communication
        waiting, in_collectives = reduce(
            ends[:, None, :], backward[:, None, :],
            transfers.reshape(layout.pp, layout.tp)[:, :, None],
            communication.buckets if communication.overlap else 1,
        )  # fmt: skip

    def of_ranks(values: Floats) -> Floats:
        return values[layout.pp_of, layout.tp_of, layout.dp_of]

    return Exchanged(
        end=of_ranks(ends[:, None, :] + waiting),
        first_wait=first_wait,
        tp_forward=tp_forward,
        tp_backward=tp_backward,
        pipeline=pipeline.T.reshape(-1)[group],
        gradients=of_ranks(waiting),
        in_collectives=of_ranks(in_collectives),
    )
