"""Own time where there is no majority of peers: the rank's own past says which one changed."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.shift import Shift, block_means, blocks, column_medians, highest, others_median
from analyzer.slowness import is_slow, slow_finding
from analyzer.strata import MAJORITY, strata

OWN_SHARE = 0.6
"""At least this share of the change between the ranks must be in the suspect's own past."""


class History:
    """Ranks whose stratum has fewer than three: the difference to the others changes.

    The others are the rest of the stratum, or, for a rank alone in it, all other ranks. A
    difference from the start says nothing here: nobody knows which of two is normal.
    """

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """At most one finding of kind `slow`; its text says that the past decided."""
        groups = blocks(grid)
        own = np.log(block_means(grid.time["own"], groups))
        others = _others(grid)
        series = own - others_median(own, others)
        series[:, [column for column in range(own.shape[1]) if column not in others]] = np.nan
        slow = [
            shift
            for shift in highest(series)
            if is_slow(grid, groups, series, shift, others[shift.column], above_peers=False)
            and _own_change(own, shift) >= OWN_SHARE * shift.effect
        ]
        if not slow:
            return ()
        shift = max(slow, key=lambda shift: shift.score)
        finding = slow_finding(grid, groups, shift, others[shift.column], "history")
        names = ", ".join(f"rank {rank}" for rank in finding.details["peers"])
        text = (
            f"{finding.text}; with too few peers to compare, its own past decided:"
            f" it changed and {names} did not"
        )
        return (dataclasses.replace(finding, text=text),)


def _own_change(own: FloatGrid, shift: Shift) -> float:
    """Change of the rank's own log time between the span and the rest of its past."""
    inside = np.zeros(len(own), dtype=bool)
    inside[shift.first : shift.last] = True
    column = own[:, [shift.column]]
    return float((column_medians(column[inside]) - column_medians(column[~inside]))[0])


def _others(grid: Grid) -> dict[int, NDArray[np.int64]]:
    """Column -> the columns to compare with, for ranks without a majority of peers."""
    columns = [int(column) for stratum in strata(grid).values() for column in stratum]
    compared: dict[int, NDArray[np.int64]] = {}
    for stratum in strata(grid).values():
        if len(stratum) >= MAJORITY:
            continue
        for column in stratum.tolist():
            alike = [other for other in stratum.tolist() if other != column]
            rest = alike or [other for other in columns if other != column]
            if rest:
                compared[column] = np.array(rest)
    return compared
