"""Own time of a rank against the ranks that must behave alike."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.changepoint import (
    Blocks,
    Shift,
    block_means,
    blocks,
    clearest_spans,
    others_median,
    whole_run_spans,
)
from analyzer.slowness.peer_groups import MAJORITY, peer_groups
from analyzer.slowness.significance import is_slow, is_slow_throughout, slow_finding


class Peers:
    """log own time minus the leave-one-out median of the stratum (docs/method/peers.md).

    A rank judged slow leaves its peers' reference before the others are judged, so that its
    victims are not. At most half of a stratum can be slow; strata under three ranks have no
    majority and are left to the detector `history`.
    """

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """One finding of kind `slow` a rank, clearest first."""
        groups = blocks(grid)
        own = np.log(block_means(grid.time["own"], groups))
        found: list[Finding] = []
        for columns in peer_groups(grid).values():
            if len(columns) >= MAJORITY:
                found.extend(_slow(grid, groups, own, columns))
        return sorted(found, key=lambda finding: -finding.score)


def _slow(grid: Grid, groups: Blocks, own: FloatGrid, columns: NDArray[np.int64]) -> list[Finding]:
    accused: list[int] = []
    found: list[Finding] = []
    while len(accused) < (1 if len(columns) == 3 else len(columns) // 2):
        trusted = np.array([column for column in columns if column not in accused])
        others = {int(column): trusted[trusted != column] for column in trusted}
        series = own - others_median(own, others)
        shift = _clearest(grid, groups, series, others)
        if shift is None:
            break
        accused.append(shift.column)
        found.append(slow_finding(grid, groups, shift, others[shift.column], "peers"))
    return found


def _clearest(
    grid: Grid, groups: Blocks, series: FloatGrid, others: Mapping[int, NDArray[np.int64]]
) -> Shift | None:
    """A rank that became slow goes before one that always was."""
    became = [
        shift
        for shift in clearest_spans(series)
        if is_slow(grid, groups, series, shift, others[shift.column])
    ]
    always = [
        shift for shift in whole_run_spans(series) if is_slow_throughout(groups, series, shift)
    ]
    for slow in (became, always):
        if slow:
            return max(slow, key=lambda shift: shift.score)
    return None
