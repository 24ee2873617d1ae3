"""Series smoothed over time, and stretches of them."""

import numpy as np
from numpy.typing import NDArray

from analyzer.run import FloatGrid
from analyzer.slowness.robust_stats import median

SMOOTHED_BINS = 5
"""A rolling median over so many scrapes ignores two bad ones in a row."""


def lower_median(cells: FloatGrid, axis: int) -> FloatGrid:
    """The lower of the two middle values over an axis; NaN where nothing answered.

    Of two devices the one with errors does not raise what is normal so.
    """
    ordered = np.sort(cells, axis=axis)  # NaN last
    count = np.isfinite(cells).sum(axis=axis, keepdims=True)
    below = np.maximum(count - 1, 0) // 2
    middle: FloatGrid = np.take_along_axis(ordered, below, axis=axis).squeeze(axis)
    return middle


def smooth(cells: FloatGrid) -> FloatGrid:
    """(T, D) rolling median over SMOOTHED_BINS, centred; NaN where most of them did not answer."""
    if len(cells) < SMOOTHED_BINS:
        return np.full(cells.shape, np.nan)
    side = SMOOTHED_BINS // 2
    padded = np.pad(cells, ((side, side), (0, 0)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, SMOOTHED_BINS, axis=0)
    known = np.isfinite(windows).sum(axis=-1)
    return np.where(known > side, median(windows, -1), np.nan)


def longest_stretch(true: NDArray[np.bool_]) -> tuple[int, int]:
    """(first, length) of the longest stretch of true values; (0, 0) without one."""
    edges = np.flatnonzero(np.diff(np.r_[False, true, False].astype(np.int8)))
    if not edges.size:
        return 0, 0
    begins, ends = edges[::2], edges[1::2]
    best = int(np.argmax(ends - begins))
    return int(begins[best]), int(ends[best] - begins[best])
