"""Medians that skip what did not answer, and series smoothed over time."""

import numpy as np
from numpy.typing import NDArray

from analyzer.run import FloatGrid

SMOOTHED_BINS = 5
"""A rolling median over so many scrapes ignores two bad ones in a row."""


def median(cells: FloatGrid, axis: int, *, low: bool = False) -> FloatGrid:
    """The median over an axis; NaN only where nothing answered.

    Args:
        cells: Any shape.
        axis: Which one.
        low: The lower of the two middle values instead of their mean, so that of two devices the
            one with errors does not raise what is normal.
    """
    ordered = np.sort(cells, axis=axis)  # NaN last
    count = np.isfinite(cells).sum(axis=axis, keepdims=True)
    below = np.maximum(count - 1, 0) // 2
    above = below if low else np.minimum(count // 2, np.maximum(count - 1, 0))
    # Where there is a value, both places hold one; elsewhere both hold NaN.
    pair = [np.take_along_axis(ordered, place, axis=axis) for place in (below, above)]
    middle: FloatGrid = ((pair[0] + pair[1]) / 2).squeeze(axis)
    return middle


def nan_median(values: FloatGrid) -> float:
    """The median of what answered; NaN if nothing did."""
    there = values[np.isfinite(values)]
    return float(np.median(there)) if there.size else float("nan")


def smooth(cells: FloatGrid) -> FloatGrid:
    """(T, D) rolling median over SMOOTHED_BINS, centred; NaN where most of them did not answer."""
    if len(cells) < SMOOTHED_BINS:
        return np.full(cells.shape, np.nan)
    side = SMOOTHED_BINS // 2
    padded = np.pad(cells, ((side, side), (0, 0)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, SMOOTHED_BINS, axis=0)
    known = np.isfinite(windows).sum(axis=-1)
    return np.where(known > side, median(windows, axis=-1), np.nan)


def longest_stretch(true: NDArray[np.bool_]) -> tuple[int, int]:
    """(first, length) of the longest stretch of true values; (0, 0) without one."""
    edges = np.flatnonzero(np.diff(np.r_[False, true, False].astype(np.int8)))
    if not edges.size:
        return 0, 0
    begins, ends = edges[::2], edges[1::2]
    best = int(np.argmax(ends - begins))
    return int(begins[best]), int(ends[best] - begins[best])
