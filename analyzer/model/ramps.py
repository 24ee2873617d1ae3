"""The shape ramp: own time that grows to the end; of no span is its level steady."""

from collections.abc import Iterator

import numpy as np

from analyzer.model.candidate import Candidate, candidate
from analyzer.model.scopes import Table
from analyzer.slowness.changepoint import (
    MEDIAN_EFFICIENCY,
    Shift,
    autocorrelation_factor,
    column_medians,
    critical_t,
)
from analyzer.slowness.temporal_shape import ramp_start
from analyzer.slowness.transfers import median
from collector.contract.robust import MAD_TO_SIGMA

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
    told = [c for c in range(rest.shape[1]) if known[:, c].sum() >= least and known[flat, c].any()]
    if not told:
        return
    sigmas = MAD_TO_SIGMA * column_medians(np.abs(np.diff(rest[:, told], axis=0))) / np.sqrt(2)
    asked = critical_t(count, len(told), len(told) * count)
    for column in told:
        scope = table.scopes[column]
        level = median(rest[flat, column])
        values = rest[:, column] - level
        knee = ramp_start(values, count)
        if knee is None or not (scope.alike and scope.majority):
            continue
        there = np.flatnonzero(known[:, column])
        values, rise = values[there], np.maximum(there - knee + 1.0, 0.0)
        slope = float(rise @ values / (rise @ rise))
        left = values - slope * rise
        sigma = MAD_TO_SIGMA * float(np.median(np.abs(left - np.median(left))))
        sigma = max(sigma, median(sigmas), table.precision.noise) * autocorrelation_factor(left)
        error = MEDIAN_EFFICIENCY * sigma / float(np.sqrt(rise @ rise))
        half = (count - knee) / 2
        long = table.precision.long_enough(
            (count - knee) * groups.steps, count * groups.steps, ended=False
        )
        above = level + slope * half >= slope * half / 2
        if slope / error >= asked and slope * half >= table.floor(scope) and long and above:
            shift = Shift(
                column, knee, count, slope * half, error * half, slope / error, asked,
                level + slope * half,
            )  # fmt: skip
            yield candidate(table, table.whole, shift, (groups.first(knee), None))
