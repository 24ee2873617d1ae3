"""Sequence-length imbalance: micro-batches of unequal work, whichever stage computes them."""

from collections.abc import Sequence

import numpy as np

from lockstep.analyzer.operations.structure.facts import ALIKE, Facts, Structure
from lockstep.analyzer.operations.trace_outliers.residuals import LENGTHS, uneven, work
from lockstep.analyzer.operations.whatif.kinds import COMPUTE
from lockstep.analyzer.shapes.operations import Floats
from lockstep.analyzer.stats.changepoint import MEDIAN_EFFICIENCY
from lockstep.analyzer.stats.peer_groups import MAJORITY
from lockstep.analyzer.stats.robust_stats import mean
from lockstep.analyzer.stats.robust_stats import spread as spread_of
from lockstep.analyzer.stats.temporal_shape import CUT

SHARED = 2.0
"""Times the spread by chance, chosen, from which stages agree on which micro-batches are long."""


def find(facts: Facts) -> Sequence[Structure]:
    """Whether the spread of work inside a step is large, and forward and backward agree on it."""
    spread = uneven(facts.cells, facts.slow)
    long = work(facts.cells, facts.slow)
    if spread < max(LENGTHS, SHARED * _by_chance(facts, long)):
        return ()
    away = long - mean(long, 1)[:, None]
    alike = correlation(away[0], away[1])
    if alike < ALIKE:
        return ()
    both = mean(away, 0)
    low, high = np.exp(np.nanquantile(both, [CUT, 1 - CUT]))
    text = (
        f"micro-batches of a step differ in work by up to {high / low:.1f}x on all stages alike"
        f" (forward and backward agree, correlation {alike:.2f}): sequences of unequal length"
    )
    return (Structure("sequence-length-imbalance", _share(facts, long), text),)


def _by_chance(facts: Facts, long: Floats) -> float:
    """The spread that the middle of the stages has where each stage varies for itself."""
    ratio = facts.cells.ratio
    if ratio.shape[2] < MAJORITY:
        return 0.0
    left = np.where(facts.slow[:, :, None], np.nan, ratio - long[:, :, None]).mean(axis=0)
    each = spread_of(left, 0)
    if not np.isfinite(each).any():
        return 0.0
    return MEDIAN_EFFICIENCY * float(np.nanmedian(each)) / float(np.sqrt(ratio.shape[2]))


def correlation(one: Floats, other: Floats) -> float:
    """Pearson's, over what both have; 0 where nothing varies."""
    known = np.isfinite(one) & np.isfinite(other)
    if known.sum() < MAJORITY:
        return 0.0
    a, b = one[known] - one[known].mean(), other[known] - other[known].mean()
    power = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / power if power > 0 else 0.0


def _share(facts: Facts, long: Floats) -> float | None:
    """With every micro-batch of a step as long as their mean, the step's work stays the same."""
    trace = facts.trace
    if not facts.cells.known:
        return None
    times = np.exp(np.nan_to_num(long))
    level = times.mean(axis=(1, 2), keepdims=True) / times
    numbers = np.unique(trace.micro_batch[trace.of(*COMPUTE)])
    factor = np.ones_like(facts.own)
    for kind, name in enumerate(COMPUTE):
        rows = np.flatnonzero(trace.of(name))
        factor[rows] = level[kind, np.searchsorted(numbers, trace.micro_batch[rows])]
    return facts.share_without(factor)
