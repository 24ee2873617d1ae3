"""How far a y axis reaches, and where lines end on it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dashboard.figures.traces import names
from dashboard.shapes import Floats, Lines

PADDING = 0.06
"""Of the range of values, above and below the lines."""
FROM_ZERO = 0.7
"""Values whose least is below this share of their most are drawn from 0."""

NOTHING_BUT_ZERO = (0.0, 1.0)
"""Ends of the axis of a chart in which everything is 0."""


def reach(drawn: Sequence[dict[str, Any]], chart: Lines) -> tuple[float, float]:
    """Ends of the y axis: every value is inside, and 0 too unless the values are far from it."""
    values = [np.asarray(trace["y"], np.float64) for trace in drawn]
    if chart.stacked:
        total = np.nansum(np.vstack(values), axis=0)
        return 0.0, max(float(total.max()), 1e-12)
    every = np.concatenate(values)
    every = every[np.isfinite(every)]
    low, high = float(every.min()), float(every.max())
    if low == high == 0.0:
        return NOTHING_BUT_ZERO
    if 0.0 <= low < FROM_ZERO * high:
        low = 0.0
    pad = PADDING * (high - low) or PADDING * abs(high) or 1.0
    return (0.0 if low == 0.0 else low - pad), high + pad


def ends(chart: Lines) -> list[tuple[str, float]]:
    """Name and last value of each line; of areas the middle of their last piece."""
    found: list[tuple[str, float]] = []
    below = 0.0
    for name in names(chart):
        value = last(chart.values[name])
        found.append((name, below + value / 2 if chart.stacked else value))
        below += value
    return found


def last(values: Floats) -> float:
    """The last value that is known; there is one."""
    return float(values[np.isfinite(values)][-1])
