"""How slow a rank must have been to be noticed: what makes "healthy" more than "nothing seen"."""

import numpy as np

from analyzer.run import Grid
from analyzer.slowness.changepoint import (
    MEDIAN_EFFICIENCY,
    NOISE_FLOOR,
    block_means,
    blocks,
    critical_t,
)
from analyzer.slowness.others import others_median
from analyzer.slowness.peer_groups import peer_groups
from analyzer.slowness.significance import FLOOR
from collector.contract.robust import MAD_TO_SIGMA

SURELY = 3.0
"""Standard errors above what is asked for, so that nine in ten are noticed (see the tests): chance
takes 1.3 of them, the search's correction for the likeness of neighbouring blocks the rest."""


def smallest_noticed(grid: Grid) -> float | None:
    """The slowdown, as a ratio, that is noticed in nine of ten runs if it lasts for half the run.

    Of the noisiest rank: its spread against its peers over the blocks of steps, and the score that
    the search for slow spans asks for. None where ranks cannot be compared.
    """
    groups = blocks(grid)
    own = np.log(block_means(grid.time["own"], groups))
    series = np.full_like(own, np.nan)
    everybody = own - others_median(own, axis=1)
    for columns in peer_groups(grid).values():
        mine = own[:, columns]
        series[:, columns] = (
            mine - others_median(mine, axis=1) if len(columns) > 1 else everybody[:, columns]
        )
    compared = np.flatnonzero(np.isfinite(series).any(axis=0))
    count = len(groups)
    if not len(compared) or count < 2:
        return None
    noise = [
        MAD_TO_SIGMA * float(np.nanmedian(np.abs(values - np.nanmedian(values))))
        for column in compared
        for values in [series[:, column]]
    ]
    if not noise:
        return None
    error = MEDIAN_EFFICIENCY * max(*noise, NOISE_FLOOR) * 2 / float(np.sqrt(count))
    asked = critical_t(count, len(compared), len(compared) * count * (count + 1) // 2)
    return float(np.exp(max(asked * error, FLOOR) + SURELY * error))
