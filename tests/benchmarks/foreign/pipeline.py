"""Forward and backward of microbatches through the stages of a pipeline.

1F1B as in Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters (2021):
a stage does as many forwards ahead as there are stages after it, then one backward for each.
"""

import numpy as np

from tests.benchmarks.simulated.arrays import Floats

FORWARD, BACKWARD = "F", "B"
Pass = tuple[int, str, int]
"""Stage, what, microbatch."""


def order(stages: int, microbatches: int) -> list[Pass]:
    """All passes such that each comes after those that it waits for."""
    plans = [_plan(stage, stages, microbatches) for stage in range(stages)]
    done, place, passes = set[Pass](), [0] * stages, list[Pass]()
    while any(place[stage] < len(plans[stage]) for stage in range(stages)):
        for stage in range(stages):
            while place[stage] < len(plans[stage]):
                what, number = plans[stage][place[stage]]
                source = stage - 1 if what == FORWARD else stage + 1
                if 0 <= source < stages and (source, what, number) not in done:
                    break
                done.add((stage, what, number))
                passes.append((stage, what, number))
                place[stage] += 1
    return passes


def _plan(stage: int, stages: int, microbatches: int) -> list[tuple[str, int]]:
    ahead = min(stages - stage - 1, microbatches)
    plan = [(FORWARD, number) for number in range(ahead)]
    for number in range(microbatches):
        if ahead + number < microbatches:
            plan.append((FORWARD, ahead + number))
        plan.append((BACKWARD, number))
    return plan


def through(
    passes: list[Pass], begin: Floats, forward: Floats, backward: Floats, hop: float
) -> Floats:
    """(stages, replicas) moments in which the last backward is done.

    Args:
        passes: In the order in which they can be done.
        begin: (stages, replicas) moments.
        forward: (stages, replicas) seconds of a microbatch.
        backward: As forward.
        hop: Seconds from a stage to the next.
    """
    stages = len(begin)
    free = begin.copy()
    ends: dict[Pass, Floats] = {}
    for stage, what, number in passes:
        source, seconds = (stage - 1, forward) if what == FORWARD else (stage + 1, backward)
        start = free[stage]
        if 0 <= source < stages:
            start = np.maximum(start, ends[source, what, number] + hop)
        ends[stage, what, number] = free[stage] = start + seconds[stage]
    return free
