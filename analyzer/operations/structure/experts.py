"""Expert imbalance: a micro-batch is long on one stage and not on the others."""

from collections.abc import Sequence

import numpy as np

from lockstep.analyzer.operations.structure.facts import ALIKE, Facts, Structure
from lockstep.analyzer.operations.structure.lengths import correlation
from lockstep.analyzer.operations.trace_outliers.residuals import LENGTHS, work
from lockstep.analyzer.stats.peer_groups import MAJORITY
from lockstep.analyzer.stats.robust_stats import median, spread


def find(facts: Facts) -> Sequence[Structure]:
    """What is left when the work that all stages share is taken out, forward and backward alike.

    Tokens that crowd on one expert lengthen a stage's forward and its backward of that micro-batch.
    Two stages are too few to tell: what one has more, the other seems to have less.
    """
    ratio = facts.cells.ratio
    if not facts.cells.cancels or ratio.shape[2] < MAJORITY:
        return ()
    left = ratio - work(facts.cells, facts.slow)[:, :, None]
    left = np.where(facts.slow[:, :, None], np.nan, left)
    left = left - median(left, 1, keepdims=True)
    each = spread(left, (0, 1, -1))
    wide = float(np.nanmedian(each)) if np.isfinite(each).any() else 0.0
    if wide < LENGTHS or correlation(left[0], left[1]) < ALIKE:
        return ()
    text = (
        f"the same micro-batch takes unequal time on different stages (spread {wide:.0%} beside"
        " what its length explains, forward and backward alike): experts of unequal load"
    )
    return (Structure("expert-imbalance", None, text),)
