"""Own time where there is no majority of peers: the rank's own past says which one changed."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Finding, Grid
from analyzer.slowness.changepoint import block_means, blocks, clearest_spans, others_median
from analyzer.slowness.peer_groups import MAJORITY, peer_groups
from analyzer.slowness.self_comparison import OWN_SHARE, own_change
from analyzer.slowness.significance import is_slow, slow_finding


class History:
    """Ranks whose stratum has fewer than three: the difference to the others changes.

    The others are the rest of the stratum, or, for a rank alone in it, all other ranks. A
    difference from the start says nothing here: nobody knows which of two is normal.

    A rank judged slow leaves the others' reference, and its stratum is not asked again: of two
    both hold the same difference. At most half of all ranks can be slow.
    """

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """One finding of kind `slow` a stratum at most; its text says that the past decided."""
        groups = blocks(grid)
        own = np.log(block_means(grid.time["own"], groups))
        places = [columns.tolist() for columns in peer_groups(grid).values()]
        found: list[Finding] = []
        accused: list[int] = []
        while 2 * (len(accused) + 1) <= sum(map(len, places)):
            others = _others(places, accused)
            series = own - others_median(own, others)
            series[:, [column for column in range(own.shape[1]) if column not in others]] = np.nan
            slow = [
                shift
                for shift in clearest_spans(series)
                if is_slow(grid, groups, series, shift, others[shift.column], above_peers=False)
                and own_change(own, shift, shift.column) >= OWN_SHARE * shift.effect
            ]
            if not slow:
                break
            shift = max(slow, key=lambda shift: shift.score)
            accused.append(shift.column)
            found.append(
                _with_reason(slow_finding(grid, groups, shift, others[shift.column], "history"))
            )
        return found


def _with_reason(finding: Finding) -> Finding:
    names = ", ".join(f"rank {rank}" for rank in finding.details["peers"])
    text = (
        f"{finding.text}; with too few peers to compare, its own past decided:"
        f" it changed and {names} did not"
    )
    return dataclasses.replace(finding, text=text)


def _others(places: Sequence[list[int]], accused: Sequence[int]) -> dict[int, NDArray[np.int64]]:
    """Column -> the columns to compare with, for ranks without a majority of peers.

    Args:
        places: The columns of each stratum.
        accused: Columns known to be slow; they and their strata are not asked, and nobody is
            compared with them.
    """
    trusted = [c for stratum in places for c in stratum if c not in accused]
    compared: dict[int, NDArray[np.int64]] = {}
    for stratum in places:
        if len(stratum) >= MAJORITY or any(column in accused for column in stratum):
            continue
        for column in stratum:
            alike = [other for other in stratum if other != column]
            rest = alike or [other for other in trusted if other != column]
            if rest:
                compared[column] = np.array(rest)
    return compared
