"""How far each part is from its peers, in spreads: the formula, and when that lasts.

`(value - median) / (1.4826 MAD + spread)` over the peers at the same time
(docs/method/anomalies.md, where the recording rules have the same); the spread is what healthy
parts differ by, so that few peers, or peers that are all the same, do not make a deviation out of
nothing.
"""

import numpy as np
from numpy.typing import NDArray

from analyzer.anomalies.robust import longest_stretch, lower_median, smooth
from analyzer.run import FloatGrid
from analyzer.slowness.peer_groups import MAJORITY
from analyzer.slowness.robust_stats import median
from collector.contract.robust import MAD_TO_SIGMA

DEVIATES = 3.0
"""Spreads from which a part deviates (the recording rules' limit, docs/method/anomalies.md)."""
LASTS_BINS = 6
"""Scrapes that a deviation must last: 90 s at 15 s. Two more than an alert within a minute needs,
because an anomaly wakes nobody, and heat and power follow a load by tens of seconds."""


def peer_distances(
    cells: FloatGrid, groups: NDArray[np.int64], spread: float, *, low: bool = False
) -> tuple[FloatGrid, FloatGrid]:
    """(distance in spreads, median of the peers), both (T, D).

    Args:
        cells: (T, D) values.
        groups: (T, D) who is alike at that time; below 0 = nobody.
        spread: What healthy parts differ by, in the unit of `cells`.
        low: By robust.lower_median, and a part without peers is then measured from 0.
    """
    middle_of = lower_median if low else median
    found, normal = np.full(cells.shape, np.nan), np.full(cells.shape, np.nan)
    for group in np.unique(groups[groups >= 0]):
        alike = groups == group
        mine = np.where(alike, cells, np.nan)
        middle = middle_of(mine, 1)[:, None]
        away = mine - middle
        scale = MAD_TO_SIGMA * middle_of(np.abs(away), 1)[:, None] + spread
        count = np.isfinite(mine).sum(axis=1)[:, None]
        if low:
            alone = count == 1
            middle = np.where(alone, 0.0, middle)
            away, scale = mine - middle, np.where(alone, spread, scale)
        enough = alike & (count >= (1 if low else MAJORITY)) & np.isfinite(mine)
        found = np.where(enough, away / scale, found)
        normal = np.where(enough, np.broadcast_to(middle, cells.shape), normal)
    return found, normal


def spans(distance: FloatGrid, sign: int) -> list[tuple[int, int, int, float]]:
    """(column, first bin, last exclusive, distance) of each part that deviates for long enough.

    Args:
        distance: (T, D) in spreads.
        sign: 1 = above, -1 = below, 0 = either side.
    """
    found: list[tuple[int, int, int, float]] = []
    for side in (1, -1) if sign == 0 else (sign,):
        # Only the columns in which it can be are smoothed: of a fleet, few.
        often = (side * distance >= DEVIATES).sum(axis=0) >= LASTS_BINS // 2
        columns = np.flatnonzero(often)
        if not columns.size:
            continue
        level = side * smooth(distance[:, columns])
        for place, column in enumerate(columns.tolist()):
            beyond = level[:, place] >= DEVIATES
            first, length = longest_stretch(_bridged(beyond, np.isfinite(level[:, place])))
            if length >= LASTS_BINS:
                inside = level[first : first + length, place]
                found.append((column, first, first + length, side * float(np.nanmedian(inside))))
    return found


def _bridged(beyond: NDArray[np.bool_], known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What did not answer goes on as it was; a stretch never begins in a gap."""
    place = np.where(known, np.arange(len(known)), -1)
    before = np.maximum.accumulate(place)
    return np.where(before >= 0, beyond[np.maximum(before, 0)], False)
