"""A trace with other times: a worker healed or slowed, and all else as it follows from that."""

from collections.abc import Sequence

import numpy as np

from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.graph import COMPUTE, OPTIMIZER
from lockstep.analyzer.operations.whatif.simulate import retimed
from lockstep.analyzer.operations.whatif.work import split_durations
from lockstep.analyzer.shapes.operations import Floats, Trace


def healed(
    trace: Trace, dp: int = 0, stage: int = 0, donor: int = 1, noise: float = 0.003, seed: int = 0
) -> Trace:
    """One worker with the computation and optimizer times of another replica's same stage.

    Args:
        trace: With a slow worker.
        dp: The slow worker's replica.
        stage: Its stage.
        donor: The replica whose times it gets, step by step.
        noise: Spread of the copied times, as a ratio: two workers are never equal.
        seed: Of the noise.
    """
    graph = build(trace)
    own = split_durations(trace, graph).own.copy()
    rows = np.flatnonzero(trace.of(*COMPUTE, OPTIMIZER) & (trace.stage == stage))
    dice = np.random.default_rng(seed)
    jitter = 1 + noise * dice.standard_normal((len(rows), len(trace.steps)))
    own[rows, dp] = own[rows, donor] * jitter
    return retimed(trace, graph, own)


def slowed(
    trace: Trace, dp: int, stage: int, factor: float | Floats, steps: Sequence[int] | None = None
) -> Trace:
    """One worker whose computation takes `factor` times as long.

    Args:
        trace: The operations.
        dp: The worker's replica.
        stage: Its stage.
        factor: 1.1 = a tenth longer; an array has one for each of the steps.
        steps: Numbers of the steps in which it is slow; None = all.
    """
    graph = build(trace)
    own = split_durations(trace, graph).own.copy()
    rows = np.flatnonzero(trace.of(*COMPUTE) & (trace.stage == stage))
    when = np.isin(trace.steps, trace.steps if steps is None else np.asarray(steps))
    own[rows[:, None], dp, np.flatnonzero(when)] *= factor
    return retimed(trace, graph, own)
