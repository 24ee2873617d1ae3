"""What began only just now: the last steps against those right before them, in short blocks."""

from collections.abc import Sequence

import numpy as np

from analyzer.run import Finding, Grid
from analyzer.slowness.changepoint import (
    BLOCK_STEPS_AT_LEAST,
    Blocks,
    block_means,
    clearest_spans,
    critical_t,
    others_median,
)
from analyzer.slowness.peer_groups import MAJORITY, peer_groups
from analyzer.slowness.significance import TRANSIENT_FLOOR, is_slow, slow_finding, steps_above

BLOCKS_AT_MOST = 30
"""Of the shortest kind, two to begin with and the rest to tell what is usual."""
SHORTEST = 2
MOST = 0.7
"""Share of single windows above the middle: one long pause lifts a block, not these."""
WINDOWS_AT_LEAST = 3
"""Scraped ones hold several steps each, and a stall in one of few lifts them all."""
LOOKS = 1000
"""Whoever watches a run asks again and again: with so many independent looks, the span of a day by
minutes, the chance of a false alarm is still that of one."""


class Recent:
    """The question of the detector `peers` about the end of the run.

    Blocks of the whole run grow with it, and three of them are minutes: here they are as short as
    blocks can be. What began so recently may as well be a burst, so it must be as large as one
    that came and went, and its chance far smaller.
    """

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """One finding of kind `slow` for each rank that is slow up to the end."""
        groups = _last(grid)
        if len(groups) < BLOCKS_AT_MOST // 2:
            return ()
        own = np.log(block_means(grid.time["own"], groups))
        found = []
        for columns in peer_groups(grid).values():
            if len(columns) < MAJORITY:
                continue
            others = {int(column): columns[columns != column] for column in columns}
            series = own - others_median(own, others)
            asked = critical_t(len(groups), len(columns), len(columns) * len(groups) * LOOKS)
            for shift in clearest_spans(series, shortest=SHORTEST, baseline=len(groups) // 2):
                peers = others[shift.column]
                if (
                    shift.last == len(groups)
                    and shift.effect >= TRANSIENT_FLOOR
                    and shift.score >= asked
                    and is_slow(grid, groups, series, shift, peers)
                    and steps_above(grid, groups, shift, peers) >= MOST
                    and sum(map(len, groups.members[shift.first :])) >= WINDOWS_AT_LEAST
                ):
                    found.append(slow_finding(grid, groups, shift, peers, "recent"))
        return sorted(found, key=lambda finding: -finding.score)


def _last(grid: Grid) -> Blocks:
    """The last unmasked windows in groups of at least BLOCK_STEPS_AT_LEAST steps."""
    usable = np.flatnonzero(~grid.masked & np.isfinite(grid.time["own"]).any(axis=1))
    steps = (grid.to_step - grid.from_step)[usable]
    members: list[list[int]] = [[]]
    held: list[int] = [0]
    for window, count in zip(usable[::-1].tolist(), steps[::-1].tolist(), strict=True):
        if held[-1] >= BLOCK_STEPS_AT_LEAST:
            if len(members) == BLOCKS_AT_MOST:
                break
            members.append([])
            held.append(0)
        members[-1].append(window)
        held[-1] += count
    groups = tuple(np.array(group[::-1], dtype=np.int64) for group in members[::-1] if group)
    return Blocks(groups, float(np.mean(held)))
