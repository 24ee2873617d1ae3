"""What each slow worker costs the run: the same steps with it at the pace of its peers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.operations.trace_outliers.suspects import Suspect
from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.intervals import of_ratio, weights
from lockstep.analyzer.operations.whatif.kinds import COMPUTE
from lockstep.analyzer.operations.whatif.simulate import simulate
from lockstep.analyzer.shapes.operations import Floats, Trace

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Charge:
    """The cost of suspects, in shares of the step.

    Attributes:
        gains: What the run gains if one suspect alone is mended.
        intervals: Of each gain, 95 %; None with too few steps.
        effects: In its own steps, the larger of a suspect's gain and of what it costs if all the
            others are mended: of two, the slower hides the other.
        slowdown: Step time over that with all mended.
        interval: Of `slowdown`.
        lost_seconds: Seconds that all suspects cost, over all steps seen.
    """

    gains: tuple[float, ...]
    intervals: tuple[Interval | None, ...]
    effects: tuple[float, ...]
    slowdown: float
    interval: Interval | None
    lost_seconds: float


def cost_of_suspects(
    trace: Trace, own: Floats, simulated: Floats, suspects: Sequence[Suspect]
) -> Charge:
    """Simulates the run with each suspect mended, and with all.

    Args:
        trace: The operations.
        own: (K, D, S) seconds, of whatif.work.split.
        simulated: (S,) seconds a step as it was.
        suspects: Whom to mend; their computations are divided by what they took too long.
    """
    graph = build(trace)
    drawn = weights(len(trace.steps))

    def times(some: Sequence[Suspect]) -> Floats:
        return simulate(graph, mended_own_times(trace, own, some))

    everyone = times(suspects)
    alone = [times([one]) for one in suspects]
    others = [times([two for two in suspects if two is not one]) for one in suspects]
    whole = float(simulated.mean())
    return Charge(
        gains=tuple(1 - float(steps.mean()) / whole for steps in alone),
        intervals=tuple(of_ratio(simulated - steps, simulated, drawn) for steps in alone),
        effects=tuple(
            float(max((simulated - mine)[during].mean(), (hidden - everyone)[during].mean()))
            / float(simulated[during].mean())
            for one, mine, hidden in zip(suspects, alone, others, strict=True)
            for during in [slice(one.first, one.last)]
        ),
        slowdown=whole / float(everyone.mean()),
        interval=of_ratio(simulated, everyone, drawn),
        lost_seconds=float((simulated - everyone).sum()),
    )


def mended_own_times(trace: Trace, own: Floats, suspects: Sequence[Suspect]) -> Floats:
    """Own times, (K, D, S) seconds, with the suspects at the pace of their peers."""
    changed = own.copy()
    compute = trace.of(*COMPUTE)
    for one in suspects:
        rows = np.flatnonzero(compute & (trace.stage == one.stage))
        changed[rows, one.dp] /= np.exp(one.by_step)
    return changed
