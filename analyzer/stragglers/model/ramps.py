"""The shape ramp: own time that grows to the end; of no span is its level steady."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.analyzer.stats.changepoint import (
    MEDIAN_EFFICIENCY,
    SCORES_AT_LEAST,
    Shift,
    autocorrelation_factor,
    column_medians,
    critical_t,
    usual_highest,
)
from lockstep.analyzer.stats.robust_stats import median_of
from lockstep.analyzer.stats.temporal_shape import best_climb
from lockstep.analyzer.stragglers.model.candidate import Candidate, as_candidate
from lockstep.analyzer.stragglers.model.scopes import Table
from lockstep.collector.contract.robust import MAD_TO_SIGMA

LEVEL_SHARE = 4
"""The level before a ramp is that of the first fourth of the blocks."""


def ramps(table: Table) -> Iterator[Candidate]:
    """A line with a knee, fitted to each scope.

    The blocks of a climb are no noise, as they are to spans of two levels: what the line leaves
    over is. The slope must be beyond chance for all knees and scopes, and the middle of the climb
    as high as any other slowdown.
    """
    groups, rest = table.whole.groups, table.whole.rest
    count = len(groups)
    if count < 2 * LEVEL_SHARE:
        return
    flat = slice(0, max(count // LEVEL_SHARE, 2))
    known = np.isfinite(rest)
    least = 2 * LEVEL_SHARE
    columns = [
        c for c in range(rest.shape[1]) if known[:, c].sum() >= least and known[flat, c].any()
    ]
    if not columns:
        return
    sigmas = MAD_TO_SIGMA * column_medians(np.abs(np.diff(rest[:, columns], axis=0))) / np.sqrt(2)
    found = [
        (climbs and goes_on, shift)
        for column in columns
        for shift, climbs, goes_on in fitted(
            rest[:, column], median_of(sigmas), flat, table.precision.noise, column
        )
    ]
    asked = critical_t(count, len(columns), len(columns) * count)
    if table.peers + 1 >= SCORES_AT_LEAST:
        # Where levels wander, all climb or fall (as of spans).
        asked = max(asked, usual_highest([shift.score for _, shift in found]))
    for clear, shift in found:
        scope, steps = table.scopes[shift.column], (count - shift.first) * groups.steps
        long = table.precision.long_enough(steps, count * groups.steps, ended=False)
        if (
            clear
            and shift.score >= asked
            and shift.effect >= table.floor(scope)
            and long
            and shift.inside >= shift.effect / 2
            and scope.alike
            and scope.majority
        ):
            edges = groups.first(shift.first), None
            yield as_candidate(table, table.whole, replace(shift, critical=asked), edges)


def fitted(
    series: FloatGrid, usual: float, flat: slice, noise: float, column: int = 0
) -> Iterator[tuple[Shift, bool, bool]]:
    """The best climb of a series, at its middle height, and of what kind; none that falls.

    Args:
        series: (B,) of blocks.
        usual: Their noise, as others show it.
        flat: Blocks of the level before.
        noise: Of a block at least.
        column: Whose series it is.

    Returns:
        The climb, whether it is one and no jump, and whether it goes on to the end.
    """
    count, level = len(series), median_of(series[flat])
    knee, climbs, goes_on = best_climb(series - level, count)
    if knee is None:
        return
    there = np.flatnonzero(np.isfinite(series))
    values, rise = series[there] - level, np.maximum(there - knee + 1.0, 0.0)
    slope = float(rise @ values / (rise @ rise))
    left = values - slope * rise
    sigma = MAD_TO_SIGMA * median_of(np.abs(left - median_of(left)))
    sigma = max(sigma, usual, noise) * autocorrelation_factor(left)
    error = MEDIAN_EFFICIENCY * sigma / float(np.sqrt(rise @ rise))
    half = (count - knee) / 2
    score, middle = slope / error, slope * half
    shift = Shift(column, knee, count, middle, error * half, score, 0.0, level + middle)
    yield shift, climbs, goes_on
