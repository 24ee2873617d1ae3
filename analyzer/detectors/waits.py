"""Who stopped waiting for the others: the second signal beside own time, without clocks."""

from collections.abc import Sequence

import numpy as np

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.changepoint import (
    Blocks,
    Shift,
    block_means,
    blocks,
    clearest_spans,
    sustained,
    whole_run_spans,
)
from analyzer.slowness.others import others_median

FLOOR = 0.02
"""Share of the step by which a rank must wait less than its peers."""


class Waits:
    """wait = collective seconds minus the least in the group: the late rank waits least.

    All ranks leave a blocking collective together, so durations alone tell who came last
    (docs/method/waits.md). With more ranks than cores the last to arrive is the least waiter in
    only 69 to 79 % of the steps (measured), so this confirms and never accuses.
    """

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """Findings of kind `wait`: ranks that began to wait less than the median of the others."""
        groups = blocks(grid)
        waits = _waits(grid)
        there = np.flatnonzero(np.isfinite(waits).any(axis=0))
        if len(there) < 2:
            return ()
        wait = block_means(waits, groups, spike=np.inf)
        wall = block_means(grid.time["wall"], groups)
        series = (others_median(wait, axis=1) - wait) / wall
        began = [
            _finding(grid, groups, shift)
            for shift in clearest_spans(series)
            if _less(series, shift)
        ]
        known = {finding.rank for finding in began}
        always = [
            _finding(grid, groups, shift)
            for shift in whole_run_spans(series)
            if _less(series, shift)
        ]
        return began + [finding for finding in always if finding.rank not in known]


def _less(series: FloatGrid, shift: Shift) -> bool:
    return (
        shift.score >= shift.critical
        and shift.effect >= FLOOR
        and shift.inside > 0
        and sustained(series, shift)
    )


def _waits(grid: Grid) -> FloatGrid:
    """(W, R) seconds per step waited for others, per data-parallel group (same pp, tp)."""
    waits = np.full_like(grid.time["collective"], np.nan)
    strata = [(info.pp, info.tp) for info in grid.ranks]
    for stratum in set(strata):
        columns = np.array([column for column, mine in enumerate(strata) if mine == stratum])
        cells = grid.time["collective"][:, columns]
        least = np.min(np.where(np.isfinite(cells), cells, np.inf), axis=1, keepdims=True)
        waits[:, columns] = np.where(np.isfinite(cells), cells - least, np.nan)
    return waits


def _finding(grid: Grid, groups: Blocks, shift: Shift) -> Finding:
    first = groups.first(shift.first)
    last = None if shift.last == len(groups) else groups.stop(shift.last)
    rank = grid.ranks[shift.column].rank
    return Finding(
        detector="waits",
        kind="wait",
        rank=rank,
        first=first,
        last=last,
        slowdown=float("nan"),
        interval=(float("nan"), float("nan")),
        score=shift.score,
        share={},
        text=(
            f"rank {rank} waits for its peers {shift.inside:.0%} of the step less than they wait"
            f" ({round(shift.inside - shift.effect, 2) + 0.0:.0%} otherwise): they wait for it"
        ),
        details={
            "share_of_step": shift.inside,
            "share_of_step_before": shift.inside - shift.effect,
        },
    )
