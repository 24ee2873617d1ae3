"""Uniform slowdown: from some step on all workers compute longer, by the same ratio."""

from collections.abc import Sequence

import numpy as np

from analyzer.model.precision import OPERATIONS
from analyzer.slowness.changepoint import clearest_spans
from analyzer.slowness.robust_stats import median
from analyzer.slowness.significance import FLOOR
from analyzer.structure.facts import ALIKE, Facts, Structure


def find(facts: Facts) -> Sequence[Structure]:
    """Own time of the middle worker, step by step, against the rest of the run."""
    ratio = np.where(facts.slow[:, :, None], np.nan, facts.cells.ratio)
    each = median(ratio, (0, 1))
    common = median(each, (0, 1))
    if not np.isfinite(common).all():
        return ()
    (shift,) = clearest_spans(common[:, None], noise=OPERATIONS.noise) or (None,)
    if shift is None or shift.score < shift.critical or shift.effect < FLOOR:
        return ()
    more = shift.effect
    steps = np.arange(len(common))
    inside = (steps >= shift.first) & (steps < shift.last)
    change = median(each[..., inside], 2) - median(each[..., ~inside], 2)
    known = np.isfinite(change)
    # A worker of which it is not known may be the one that holds all others back.
    if not (known | facts.slow).all() or (change[known] > more / 2).mean() < ALIKE:
        return ()
    factor = float(np.exp(more))
    begin = facts.trace.steps[shift.first]
    end = "" if inside[-1] else f" to step {facts.trace.steps[shift.last]}"
    text = (
        f"all workers compute {factor:.2f}x as long from step {begin}{end}: more work or other"
        " code, not a node"
    )
    share = facts.share_without(np.where(inside, 1 / factor, 1.0))
    return (Structure("uniform", share, text),)
