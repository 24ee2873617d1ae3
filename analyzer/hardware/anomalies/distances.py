"""How far each part is from its peers, in spreads: the formula, and when that lasts.

`(value - median) / (1.4826 MAD + spread)` over the peers at the same time
(docs/method/anomalies.md, where the recording rules have the same); the spread is what healthy
parts differ by, so that few peers, or peers that are all the same, do not make a deviation out of
nothing. From MILD spreads on a part deviates, as a series of a finding does.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.causes.symptoms.series import MILD
from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.analyzer.stats.peer_groups import MAJORITY
from lockstep.analyzer.stats.robust_stats import median
from lockstep.analyzer.stats.temporal_shape import stretches
from lockstep.collector.contract.robust import MAD_TO_SIGMA

PASSING = 2
"""Scrapes in a row that say nothing by themselves: one may have met a driver that was busy, and
what came and went between two is in both. Chosen."""
SHORTEST = PASSING + 1
SMOOTHED_BINS = 2 * PASSING + 1
"""A rolling median over so many scrapes ignores those that pass."""
LASTS_BINS = 2 * SHORTEST
"""Scrapes that a deviation must last: 90 s at 15 s. Two more than an alert within a minute needs,
because an anomaly wakes nobody, and heat and power follow a load by tens of seconds."""


class Span(NamedTuple):
    """Where a part deviates: its column, the first bin, the one after the last, how many spreads.

    `size` is below 0 where it is lower than its peers.
    """

    column: int
    first: int
    stop: int
    size: float


def peer_distances(
    cells: FloatGrid, groups: NDArray[np.int64], spread: float, *, low: bool = False
) -> tuple[FloatGrid, FloatGrid]:
    """(distance in spreads, median of the peers), both (T, D).

    Args:
        cells: (T, D) values.
        groups: (T, D) who is alike at that time; below 0 = nobody.
        spread: What healthy parts differ by, in the unit of `cells`.
        low: By lower_median, and a part without peers is then measured from 0.
    """
    middle_of = lower_median if low else median
    distance, normal = np.full(cells.shape, np.nan), np.full(cells.shape, np.nan)
    for group in np.unique(groups[groups >= 0]):
        alike = (groups == group) & np.isfinite(cells)
        mine = np.where(alike, cells, np.nan)
        count = alike.sum(axis=1)[:, None]
        middle = middle_of(mine, 1)[:, None]
        middle = np.where(low & (count == 1), 0.0, middle)
        scale = MAD_TO_SIGMA * middle_of(np.abs(mine - middle), 1)[:, None] * (count > 1) + spread
        enough = alike & (count >= (1 if low else MAJORITY))
        distance = np.where(enough, (mine - middle) / scale, distance)
        normal = np.where(enough, middle, normal)
    return distance, normal


def spans(distance: FloatGrid, sign: int) -> list[Span]:
    """Each part that deviates for long enough.

    Args:
        distance: (T, D) in spreads.
        sign: 1 = above, -1 = below, 0 = either side.
    """
    span = []
    for side in (1, -1) if sign == 0 else (sign,):
        # Only the columns in which it can be are smoothed: of a fleet, few.
        columns = np.flatnonzero((side * distance >= MILD).sum(axis=0) > PASSING)
        level = side * smooth(distance[:, columns])
        for column, cells in zip(columns.tolist(), level.T, strict=True):
            first, stop = longest_stretch(_bridged(cells >= MILD, np.isfinite(cells)))
            if stop - first >= LASTS_BINS:
                size = side * float(np.nanmedian(cells[first:stop]))
                span.append(Span(column, first, stop, size))
    return span


def lower_median(cells: FloatGrid, axis: int) -> FloatGrid:
    """The lower of the two middle values over an axis; NaN where nothing answered.

    Of two devices the one with errors does not raise what is normal so.
    """
    ordered = np.sort(cells, axis=axis)  # NaN last
    count = np.isfinite(cells).sum(axis=axis, keepdims=True)
    below = np.maximum(count - 1, 0) // 2
    middle: FloatGrid = np.take_along_axis(ordered, below, axis=axis).squeeze(axis)
    return middle


def rolling(cells: FloatGrid, before: int, after: int) -> FloatGrid:
    """(T, D, n) each value of (T, D) with those before and after it; NaN beyond the ends."""
    padded = np.pad(cells, ((before, after), (0, 0)), constant_values=np.nan)
    return np.lib.stride_tricks.sliding_window_view(padded, before + 1 + after, axis=0)


def smooth(cells: FloatGrid) -> FloatGrid:
    """(T, D) rolling median over SMOOTHED_BINS, centred; NaN where most of them did not answer."""
    windows = rolling(cells, PASSING, PASSING)
    known = np.isfinite(windows).sum(axis=-1)
    return np.where(known > PASSING, median(windows, -1), np.nan)


def longest_stretch(true: NDArray[np.bool_]) -> tuple[int, int]:
    """First and stop of the longest stretch of true values; (0, 0) without one."""
    return max(stretches(true), key=lambda each: each[1] - each[0], default=(0, 0))


def _bridged(beyond: NDArray[np.bool_], known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What did not answer goes on as it was; a stretch never begins in a gap."""
    place = np.where(known, np.arange(len(known)), -1)
    before = np.maximum.accumulate(place)
    return np.where(before >= 0, beyond[np.maximum(before, 0)], False)
