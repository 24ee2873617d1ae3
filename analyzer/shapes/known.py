"""When the own time of a rank is known: the one definition, for arrays and for PromQL.

The own time of a step of a rank is known if and only if every collective that this rank was in
during the step was timed; else it holds the wait for others, and says nothing of who is slow. A
page counts those steps (contract TRAIN_KNOWN_STEPS) and sums own time over them only. So the own
time of a span is known where the known steps rose by as much as the steps, and nowhere without that
counter: who does not say that it knows does not know.
"""

import numpy as np
from numpy.typing import NDArray

from lockstep.collector.contract import metrics

SLACK = 1e-9
"""Relative: what the arithmetic of rates loses. One step of a billion may be missing."""
Floats = NDArray[np.float64]


def all_known(known_steps: Floats, steps: Floats) -> NDArray[np.bool_]:
    """Whether own time is known of all steps of each span.

    Args:
        known_steps: Known steps of each span, any shape; NaN = nobody counts them.
        steps: All steps of it.
    """
    return np.asarray(known_steps >= (1.0 - SLACK) * steps)


def own_each(own: Floats, steps: Floats, known_steps: Floats) -> Floats:
    """(T - 1, R) own seconds a step between two looks at counters; NaN where it is not known.

    Args:
        own: (T, R) own seconds so far; NaN = nothing was told.
        steps: (T, R) steps so far.
        known_steps: (T, R) steps so far of which own time is known.
    """
    rise, per, known = (np.diff(cells, axis=0) for cells in (own, steps, known_steps))
    # A counter that fell began anew: its rise is not known.
    there = (rise >= 0) & (per > 0) & all_known(known, per)
    found: Floats = np.divide(rise, per, out=np.full(rise.shape, np.nan), where=there)
    return found


def own_per_step(span: str, selector: str = "") -> str:
    """PromQL: own seconds per step by (run, rank) over a span; absent where it is not known.

    Absent, too, where the rank did no step, and where it was resumed: it begins at the resumed
    step, which `rate` would count as that many steps.

    Args:
        span: A duration of PromQL such as `1m`; it must hold two scrapes.
        selector: In braces, such as `{run="a"}`; empty = every rank.
    """
    steps = _rate(metrics.TRAIN_STEPS, span, selector)
    again = f"resets({metrics.TRAIN_STEPS.name}{selector}[{span}]) > 0"
    return (
        f"sum by (run, rank) ({_rate(metrics.TRAIN_OWN, span, selector)} >= 0)\n"
        f"/ on (run, rank)\n(sum by (run, rank) ({steps}\n  unless {again}) > 0)\n"
        f"and on (run, rank)\n"
        f"sum by (run, rank) ({_rate(metrics.TRAIN_KNOWN_STEPS, span, selector)})\n"
        f"  >= on (run, rank) {1.0 - SLACK:.9f} * sum by (run, rank) ({steps})"
    )


def _rate(metric: metrics.Metric, span: str, selector: str) -> str:
    return f"rate({metric.name}{selector}[{span}])"
