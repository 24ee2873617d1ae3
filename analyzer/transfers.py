"""Transfer time: what is left of a collective when nobody waits for anybody."""

import numpy as np

from analyzer.run import FloatGrid, Grid
from analyzer.shift import Blocks, block_means


def transfers(grid: Grid) -> FloatGrid:
    """(W,) seconds per step: the largest over groups of the least in the group."""
    cells = grid.time["collective"]
    groups: dict[int, list[int]] = {}
    for column, info in enumerate(grid.ranks):
        groups.setdefault(info.tp, []).append(column)
    least = [
        np.min(cells[:, columns], axis=1, initial=np.inf, where=np.isfinite(cells[:, columns]))
        for columns in groups.values() if len({grid.ranks[c].node for c in columns}) > 1
    ]  # fmt: skip
    if not least:
        return np.full(len(cells), np.nan)
    table = np.array(least)
    longest: FloatGrid = np.max(np.where(np.isfinite(table), table, np.nan), axis=0)
    return longest


def by_block(transfer: FloatGrid, groups: Blocks, usual: float) -> tuple[FloatGrid, FloatGrid]:
    """(B, 1) shares of a usual step, as medians and as means of blocks.

    A shaped link lets some steps pass at once, which medians jump over; a stall of one step counts
    in means, for a step at most.
    """
    middles = np.array([[median(transfer[members])] for members in groups.members])
    means = block_means(np.minimum(transfer, usual)[:, None], groups, spike=np.inf)
    return middles / usual, means / usual


def median(cells: FloatGrid) -> float:
    """The middle of what answered; NaN if nothing did."""
    there = cells[np.isfinite(cells)]
    return float(np.median(there)) if there.size else float("nan")
