"""The end of a step: the norm of gradients, optimizer, checkpoint, evaluation, and the rest."""

from dataclasses import dataclass

import numpy as np

from tests.benchmarks.foreign.effects import StepEffects
from tests.benchmarks.foreign.noise import Noise
from tests.benchmarks.foreign.scenario import Scenario
from tests.benchmarks.foreign.step import Exchanged, Work, host_share
from tests.benchmarks.simulated.arrays import Floats

NORM, NORM_EXCHANGE = 0.0005, 0.001
"""Seconds of the norm of gradients, and of its all-reduce."""
BARRIER = 0.002
"""Seconds of waiting for all."""


@dataclass
class Tail:
    """(ranks,) seconds.

    Attributes:
        end: Unix time; before_other likewise, of the begin of what is left.
        gradients: Waiting for them, with the norm.
        gathering: Of sharded parameters, after the optimizer.
        world: In collectives of all ranks.
        own_clipping, own_checkpoint, own_evaluation: Outside of waiting.
        tags: Why slow by design.
    """

    end: Floats
    before_other: Floats
    gradients: Floats
    optimizer: Floats
    gathering: Floats
    checkpoint: Floats
    evaluation: Floats
    other: Floats
    world: Floats
    own_clipping: float
    own_checkpoint: Floats
    own_evaluation: Floats
    tags: list[str]


def tail(
    scenario: Scenario, noise: Noise, step: int, exchanged: Exchanged, work: Work,
    clock_factor: Floats, effects: StepEffects, transfers: Floats,
    pause: tuple[int, float] | None,
) -> Tail:  # fmt: skip
    """Of a step; `pause` is a rank that stands still and for how long."""
    layout, compute, habits = scenario.layout, scenario.compute, scenario.habits
    none = np.zeros(layout.ranks)
    now, gradients, world, own_clipping = exchanged.end, exchanged.gradients, none, 0.0
    if scenario.communication.clip:
        ready = now + NORM
        done = ready.max() + NORM_EXCHANGE
        world = world + done - ready
        gradients = gradients + done - now
        now, own_clipping = np.full(layout.ranks, done), NORM
    optimizer = 0.04 * scenario.length.step_seconds * clock_factor**0.3 * effects.slower**0.5
    optimizer = optimizer * np.exp(compute.noise * 0.5 * noise.kernels[step])
    if habits.offload:
        optimizer = optimizer * effects.bus
    now = now + optimizer
    gathering = none
    if scenario.communication.sharded and layout.dp > 1:
        group = layout.pp_of * layout.tp + layout.tp_of
        latest = np.zeros(len(transfers))
        np.maximum.at(latest, group, now)
        gathered = latest[group] + 0.3 * transfers[group]
        gathering, now = gathered - now, gathered
    rest = Tail(
        end=now, before_other=now, gradients=gradients, optimizer=optimizer, gathering=gathering,
        checkpoint=none, evaluation=none, other=none, world=world, own_clipping=own_clipping,
        own_checkpoint=none, own_evaluation=none, tags=[],
    )  # fmt: skip
    _checkpoint(scenario, noise, step, effects, rest)
    _evaluate(scenario, step, work, rest)
    _other(scenario, noise, step, effects, pause, rest)
    if scenario.warms_up(step):
        rest.tags.append("warmup")
    rest.tags.sort(key=("gc", "eval", "checkpoint", "warmup").index)
    return rest


def _due(step: int, every: int) -> bool:
    return bool(every) and step > 0 and step % every == 0


def _checkpoint(
    scenario: Scenario, noise: Noise, step: int, effects: StepEffects, rest: Tail
) -> None:
    """All wait for the slowest writer, but where it is written behind the training."""
    habits = scenario.habits
    if not _due(step, habits.checkpoint_every):
        return
    rest.tags.append("checkpoint")
    chance, seconds = noise.chance[step], habits.checkpoint_seconds
    if habits.checkpoint_async:
        copying = np.where(scenario.writers, seconds * 0.12 * (1 + 0.1 * chance), 0)
        rest.own_checkpoint = rest.checkpoint = copying
    else:
        writing = seconds * (0.85 + 0.3 * chance) * effects.writing
        rest.own_checkpoint = np.where(scenario.writers, writing, 0.0)
        ready = rest.end + rest.own_checkpoint
        done = ready.max() + BARRIER
        rest.checkpoint = done - rest.end
        rest.world = rest.world + done - ready
    rest.end = rest.end + rest.checkpoint


def _evaluate(scenario: Scenario, step: int, work: Work, rest: Tail) -> None:
    habits, layout = scenario.habits, scenario.layout
    if not _due(step, habits.eval_every):
        return
    rest.tags.append("eval")
    takes_part = layout.dp_of == 0 if scenario.has("rank0eval") else 1.0
    kernels = work.kernels
    rest.own_evaluation = habits.eval_seconds * kernels / kernels.mean() * takes_part
    ready = rest.end + rest.own_evaluation
    done = ready.max() + BARRIER
    rest.evaluation = done - rest.end
    rest.world = rest.world + done - ready
    rest.end = np.full(layout.ranks, done)


def _other(
    scenario: Scenario, noise: Noise, step: int, effects: StepEffects,
    pause: tuple[int, float] | None, rest: Tail,
) -> None:  # fmt: skip
    """What a loop does beside training, garbage collection, and standing still."""
    habits, layout = scenario.habits, scenario.layout
    step_seconds, chance = scenario.length.step_seconds, noise.chance[step]
    other = 0.015 * step_seconds * (1 + 0.4 * chance) / host_share(scenario, effects)
    other = other * (1 + effects.memory[layout.node])
    if habits.collects_together and step % 50 == 49:
        other = other + 0.05 * step_seconds + 0.3 * (1 + 0.2 * chance)
        rest.tags.append("gc")
    elif habits.collects_alone:
        due = (step + 7 * np.arange(layout.ranks)) % noise.collecting == 0
        other = other + np.where(due, 0.12 * step_seconds * (0.5 + chance), 0)
    other = other + effects.collecting
    if scenario.has("rank0log") and step % 25 == 24:
        other[0] += 0.35 * step_seconds
    if pause is not None:
        rank, seconds = pause
        other[rank] += seconds
    rest.before_other, rest.other = rest.end, other
    rest.end = rest.end + other
