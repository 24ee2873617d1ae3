"""Uniform slowdown: from some step on all workers compute longer, by the same ratio."""

from collections.abc import Sequence

import numpy as np

from analyzer.detectors.change import change
from analyzer.model.precision import OPERATIONS
from analyzer.slowness.robust_stats import mean
from analyzer.structure.facts import Facts, Structure
from analyzer.trace_outliers import as_windows


def find(facts: Facts) -> Sequence[Structure]:
    """The change of the whole run, which windows are asked for too, of workers that are not slow.

    A worker of which it is not known may be the one that holds all others back.
    """
    own = mean(facts.cells.ratio, (0, 1))
    found = []
    for one in change(as_windows(own, ~facts.slow), OPERATIONS):
        if one.kind == "structure":
            steps = facts.trace.steps
            end = "" if one.last is None else f" to step {steps[one.last]}"
            text = (
                f"all workers compute {one.slowdown:.2f}x as long from step {steps[one.first]}{end}"
                ": more work or other code, not a node"
            )
            inside = np.zeros(len(steps), dtype=bool)
            inside[one.first : one.last] = True
            share = facts.share_without(np.where(inside, 1 / one.slowdown, 1.0))
            found.append(Structure("uniform", share, text))
    return found
