"""Ranks that become ever slower: of no span of theirs is the level steady."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.changepoint import (
    MEDIAN_EFFICIENCY,
    NOISE_FLOOR,
    Blocks,
    Shift,
    autocorrelation_factor,
    block_means,
    blocks,
    critical_t,
    others_median,
)
from analyzer.slowness.peer_groups import MAJORITY, peer_groups
from analyzer.slowness.significance import FLOOR, long_enough, slow_finding
from analyzer.slowness.temporal_shape import Shape, ramp_start
from collector.contract.robust import MAD_TO_SIGMA

LEVEL_SHARE = 4
"""The level before a ramp is that of the first fourth of the blocks."""


class Ramp:
    """A line with a knee, fitted to each rank's log own time over its peers'.

    The blocks of a climb are no noise, as they are to the detector `peers`, which looks for two
    levels: what the line leaves over is. The slope must be beyond chance for all knees and ranks,
    and the middle of the climb as high as any other slowdown.
    """

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """One finding of kind `slow` a rank that climbs to the end."""
        groups = blocks(grid)
        own = np.log(block_means(grid.time["own"], groups))
        found: list[Finding] = []
        for columns in peer_groups(grid).values():
            if len(columns) < MAJORITY:
                continue
            others = {int(column): columns[columns != column] for column in columns}
            series = (own - others_median(own, others))[:, columns]
            for shift in _climbs(groups, series, columns):
                edges = (groups.first(shift.first), None)
                peers = others[shift.column]
                finding = slow_finding(grid, groups, shift, peers, "ramp", edges)
                if finding.details["shape"] == Shape.RAMP:
                    found.append(finding)
        return sorted(found, key=lambda finding: -finding.score)


def _climbs(groups: Blocks, series: FloatGrid, columns: NDArray[np.int64]) -> list[Shift]:
    count = len(series)
    if count < 2 * LEVEL_SHARE or not np.isfinite(series).all():
        return []
    level = np.median(series[: max(count // LEVEL_SHARE, 2)], axis=0)
    sigmas = MAD_TO_SIGMA * np.median(np.abs(np.diff(series, axis=0)), axis=0) / np.sqrt(2)
    asked = critical_t(count, len(columns), len(columns) * count)
    found = []
    for place, column in enumerate(columns.tolist()):
        values = series[:, place] - level[place]
        knee = ramp_start(values, count)
        if knee is None:
            continue
        rise = np.maximum(np.arange(count) - knee + 1.0, 0.0)
        slope = float(rise @ values / (rise @ rise))
        rest = values - slope * rise
        left = MAD_TO_SIGMA * float(np.median(np.abs(rest - np.median(rest))))
        sigma = max(left, float(np.median(sigmas)), NOISE_FLOOR) * autocorrelation_factor(rest)
        error = MEDIAN_EFFICIENCY * sigma / float(np.sqrt(rise @ rise))
        half = (count - knee) / 2
        long = long_enough((count - knee) * groups.steps, count * groups.steps, ended=False)
        if slope / error >= asked and slope * half >= FLOOR and long:
            found.append(
                Shift(
                    column, knee, count, slope * half, error * half, slope / error, asked,
                    float(level[place]) + slope * half,
                )
            )  # fmt: skip
    return found
