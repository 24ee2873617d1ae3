"""Ranks that are slow on and off, so that no single span of steps stands out."""

from collections.abc import Iterator, Sequence

import numpy as np

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.changepoint import (
    SPIKE,
    Blocks,
    block_means,
    blocks,
    clearest_spans,
    critical_t,
    others_median,
    whole_run_spans,
)
from analyzer.slowness.peer_groups import MAJORITY, peer_groups
from analyzer.slowness.significance import (
    FLOOR,
    PARTS_AT_MOST,
    TRANSIENT_FLOOR,
    log_ratio,
    long_enough,
    slow_finding,
    span_edges,
)
from analyzer.slowness.temporal_shape import Shape

SCALES = (2, 3, 4)
"""Blocks that are joined into one. An excess in half of the steps is on and off between short
blocks, and steady between blocks of a turn and a half or more."""


class Rhythm:
    """The question of the detector `peers` about longer blocks, whose means hold parts of turns.

    It asks for no excess that stays, but for one whose single windows show regular turns, as a few
    bursts do not. The mean excess must be as large and last as long as any other.
    """

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """One finding of kind `slow` a rank, the clearest of all scales."""
        fine = blocks(grid)
        best: dict[int | None, Finding] = {}
        for scale in SCALES:
            for finding in _slow(grid, fine, _wider(fine, scale)):
                known = best.get(finding.rank)
                if known is None or finding.score > known.score:
                    best[finding.rank] = finding
        return sorted(best.values(), key=lambda finding: -finding.score)


def _wider(groups: Blocks, scale: int) -> Blocks:
    """The blocks joined by `scale` from the last on; a short first one joins the one after it."""
    edges = list(range(len(groups), 0, -scale))[::-1]
    begins = [0, *edges[1:-1]] if edges and edges[0] < scale else [0, *edges[:-1]]
    stops = [*begins[1:], len(groups)]
    members = [
        np.concatenate(groups.members[begin:stop])
        for begin, stop in zip(begins, stops, strict=True)
        if stop > begin
    ]
    return Blocks(tuple(members), groups.steps * len(groups) / max(len(members), 1))


def _smooth(ratio: FloatGrid, fine: Blocks) -> FloatGrid:
    """(n,) log of the mean ratio over a block around each: single steps are now on, now off."""
    there = np.isfinite(ratio)
    kernel = np.ones(max(len(ratio) // len(fine), 1))
    total = np.convolve(np.where(there, np.minimum(np.exp(ratio), SPIKE), 0.0), kernel, "same")
    count = np.convolve(there.astype(float), kernel, "same")
    return np.log(np.where(count > 0, total / np.maximum(count, 1.0), np.nan))


def _slow(grid: Grid, fine: Blocks, groups: Blocks) -> Iterator[Finding]:
    if not len(groups):
        return
    own = np.log(block_means(grid.time["own"], groups))
    for columns in peer_groups(grid).values():
        if len(columns) < MAJORITY:
            continue
        others = {int(column): columns[columns != column] for column in columns}
        series = own - others_median(own, others)
        # All spans of all scales were searched; there are at most n^2 / 2 spans of n blocks.
        asked = critical_t(len(groups), len(columns), len(SCALES) * len(columns) * len(groups) ** 2)
        shifts = [
            shift
            for shift in (*clearest_spans(series), *whole_run_spans(series))
            if shift.score >= asked
        ]
        for shift in shifts:
            peers = others[shift.column]
            finding = slow_finding(grid, groups, shift, peers, "rhythm")
            if (finding.details["period_steps"] or np.inf) <= fine.steps:
                ratio = log_ratio(grid, np.concatenate(groups.members), shift.column, peers)
                edges = span_edges(groups, shift, _smooth(ratio, fine))
                finding = slow_finding(grid, groups, shift, peers, "rhythm", edges)
            if finding.details["shape"] == Shape.PERIODIC and _counts(grid, finding):
                yield finding


def _counts(grid: Grid, finding: Finding) -> bool:
    """Whether a periodic excess is large and long enough.

    From the first step on it may be the design of the run, as rank 0 writes logs.
    """
    steps = grid.to_step - grid.from_step
    total = float(steps[~grid.masked].sum())
    ended = finding.last is not None
    floor = TRANSIENT_FLOOR if ended else FLOOR
    if finding.details["from_start"]:
        floor = PARTS_AT_MOST
    return bool(np.log(finding.slowdown) >= floor) and long_enough(
        float(finding.details["steps"]), total, ended=ended
    )
