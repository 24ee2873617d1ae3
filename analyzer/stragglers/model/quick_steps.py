"""Own time where steps are so noisy that no mean tells who is slow: by the quick steps of each.

What a crowded host takes from a rank comes in few long pieces. A mean of steps holds them, and so
does its noise. A fault slows the quick steps too, which these pieces did not reach.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.stats.changepoint import BLOCK_STEPS_AT_LEAST, SAME_ABOVE, blocks
from lockstep.analyzer.stragglers.model.minimum_detectable_effect import smallest_noticed
from lockstep.analyzer.stragglers.model.precision import Precision

BLIND = 1.5
"""Chosen: means tell enough where they would show a rank in half of a run that is slower by less;
as much as a run that is called healthy must."""
QUICK = 0.25
"""Quantile of the steps of a block, chosen: of five the second, as one may lack work."""


def with_quick_steps(grid: Grid, precision: Precision) -> Grid | None:
    """The grid with own time that is in each block of steps what its quick ones take.

    None where means of steps tell enough, and of windows so long that they are means themselves.

    Args:
        grid: The run's windows.
        precision: What these can tell.
    """
    groups = blocks(grid, least=precision.block_steps)
    if not groups.members or min(map(len, groups.members)) < BLOCK_STEPS_AT_LEAST:
        return None
    noticed = smallest_noticed(grid, precision)
    if noticed is None or noticed <= BLIND:
        return None
    own = np.full_like(grid.time["own"], np.nan)
    for members in groups.members:
        own[members] = _quick(grid.time["own"][members])
    return replace(grid, time={**grid.time, "own": own})


def plainly_longer(
    grid: Grid, columns: NDArray[np.int64], peers: NDArray[np.int64], inside: NDArray[np.bool_]
) -> bool:
    """Whether nearly every step of some ranks is longer than the same step of nearly every peer.

    The probability of superiority (McGraw and Wong, Psychological Bulletin 111, 1992), which no
    single long step moves. On a crowded host the middle step of one rank is twice as long for some
    minutes, and still shorter than that of many a peer (measured).

    Args:
        grid: The run's windows.
        columns: The ranks.
        peers: Theirs.
        inside: (W,) windows in which to look.
    """
    own = grid.time["own"][inside & ~grid.masked]
    mine, theirs = own[:, columns, None], own[:, None, np.setdiff1d(peers, columns)]
    known = np.isfinite(mine) & np.isfinite(theirs)
    return bool(known.any() and float((mine > theirs)[known].mean()) >= SAME_ABOVE)


def _quick(cells: FloatGrid) -> FloatGrid:
    """(R,) the QUICK quantile of (W, R); NaN where under half answered."""
    known = np.isfinite(cells).sum(axis=0)
    ordered = np.sort(np.where(np.isfinite(cells), cells, np.inf), axis=0)
    place = np.minimum((QUICK * known).astype(np.int64), len(cells) - 1)
    quick = np.take_along_axis(ordered, place[None, :], axis=0)[0]
    return np.where(2 * known >= len(cells), quick, np.nan)
