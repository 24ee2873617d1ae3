"""Second signals of a rank beside its own time; they confirm, and never accuse alone.

Who stopped waiting for the others, and whose training thread uses more CPU.
"""

from collections.abc import Mapping, Sequence
from typing import Any

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
from analyzer.slowness.robust_stats import interval_95
from analyzer.slowness.significance import TENTH

LESS = 0.02
"""Share of the step by which a rank must wait less than its peers."""
UNKNOWN = (float("nan"), float("nan"))


def waits_less(grid: Grid) -> Sequence[Finding]:
    """Findings of kind `wait`: ranks that began to wait less than the median of the others.

    wait = collective seconds minus the least in the group. All ranks leave a blocking collective
    together, so durations alone tell who came last (docs/method/waits.md). With more ranks than
    cores the last to arrive is the least waiter in only 69 to 79 % of the steps (measured).
    """
    groups, waits = blocks(grid), _waits(grid)
    if np.isfinite(waits).any(axis=0).sum() < 2:
        return ()
    wait = block_means(waits, groups, spike=np.inf)
    series = (others_median(wait, axis=1) - wait) / block_means(grid.time["wall"], groups)
    told: dict[int, Shift] = {}
    for shift in (*clearest_spans(series), *whole_run_spans(series)):
        if _beyond(series, shift, LESS) and shift.inside > 0:
            told.setdefault(shift.column, shift)
    return [_less(grid, groups, shift) for shift in told.values()]


def uses_more_cpu(grid: Grid) -> Sequence[Finding]:
    """Findings of kind `cpu`: log thread CPU per step over the median of the other ranks'."""
    groups = blocks(grid)
    with np.errstate(divide="ignore", invalid="ignore"):
        used = np.log(block_means(grid.time["cpu"], groups))
    used = np.where(np.isfinite(used), used, np.nan)
    if np.isfinite(used).any(axis=0).sum() < 2:
        return ()
    series = used - others_median(used, axis=1)
    return [
        _more(grid, groups, shift)
        for shift in clearest_spans(series)
        if _beyond(series, shift, TENTH) and shift.inside >= shift.effect / 2
    ]


def _beyond(series: FloatGrid, shift: Shift, least: float) -> bool:
    return shift.score >= shift.critical and shift.effect >= least and sustained(series, shift)


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


def _less(grid: Grid, groups: Blocks, shift: Shift) -> Finding:
    rank, before = grid.ranks[shift.column].rank, shift.inside - shift.effect
    text = (
        f"rank {rank} waits for its peers {shift.inside:.0%} of the step less than they wait"
        f" ({round(before, 2) + 0.0:.0%} otherwise): they wait for it"
    )
    details = {"share_of_step": shift.inside, "share_of_step_before": before}
    return _finding(grid, groups, shift, "wait", float("nan"), UNKNOWN, text, details)


def _more(grid: Grid, groups: Blocks, shift: Shift) -> Finding:
    rank = grid.ranks[shift.column].rank
    low, ratio, high = interval_95(shift.effect, shift.error)
    text = f"rank {rank}'s thread used {ratio:.2f}x the CPU per step of before"
    return _finding(grid, groups, shift, "cpu", ratio, (low, high), text, {})


def _finding(
    grid: Grid, groups: Blocks, shift: Shift, kind: str, slowdown: float,
    interval: tuple[float, float], text: str, details: Mapping[str, Any],
) -> Finding:  # fmt: skip
    return Finding(
        detector="waits" if kind == "wait" else "cpu",
        kind=kind,
        rank=grid.ranks[shift.column].rank,
        first=groups.first(shift.first),
        last=None if shift.last == len(groups) else groups.stop(shift.last),
        slowdown=slowdown,
        interval=interval,
        score=shift.score,
        share={},
        text=text,
        details=details,
    )
