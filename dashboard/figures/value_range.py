"""How far a y axis reaches, and where lines end on it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lockstep.analyzer.align.grid import WARMUP_SHARE, WARMUP_STEPS
from lockstep.dashboard.figures.traces import names
from lockstep.dashboard.figures.units import said
from lockstep.dashboard.shapes import Floats, Lines

PADDING = 0.06
"""Of the range of values, above and below the lines."""
FROM_ZERO = 0.7
"""Values whose least is below this share of their most are drawn from 0."""

WARMS = ("step",)
"""Keys of charts that the first steps of a run would flatten."""
STANDS_OUT = 1.5
"""The first steps leave the chart where they take so many times the longest of the others."""
NOTHING_BUT_ZERO = (0.0, 1.0)
"""Ends of the axis of a chart in which everything is 0."""


def reach(drawn: Sequence[dict[str, Any]], chart: Lines) -> tuple[float, float]:
    """Ends of the y axis: every value is inside, and 0 too unless the values are far from it.

    Of step times the first steps of a run may go beyond (`beyond`): they take many times as long,
    and an axis that holds them shows a straggler as a flat line.
    """
    values = [np.asarray(trace["y"], np.float64) for trace in drawn]
    if chart.stacked:
        total = np.nansum(np.vstack(values), axis=0)
        return 0.0, max(float(total.max()), 1e-12)
    every = np.concatenate(values)
    every = every[np.isfinite(every)]
    low, high = float(every.min()), float(every.max())
    if low == high == 0.0:
        return NOTHING_BUT_ZERO
    cut = warm_up(chart)
    if cut is not None:
        high = cut[1]
    if 0.0 <= low < FROM_ZERO * high:
        low = 0.0
    pad = PADDING * (high - low) or PADDING * abs(high) or 1.0
    return (0.0 if low == 0.0 else low - pad), high + pad


def warm_up(chart: Lines) -> tuple[float, float] | None:
    """The longest of a run's first steps, and of those after them; None = it does not stand out.

    A spike after warm-up is always within the chart.
    """
    if chart.key not in WARMS or chart.steps is None or not names(chart):
        return None
    told = np.isfinite(chart.steps)
    if not told.any():
        return None
    first, last_step = float(chart.steps[told].min()), float(chart.steps[told].max())
    until = max(float(WARMUP_STEPS), WARMUP_SHARE * last_step)
    if first > until:
        return None
    values = np.vstack([chart.values[name] for name in names(chart)])
    later = chart.steps >= until
    before, after = values[:, ~later & told], values[:, later & told]
    if not (np.isfinite(before).any() and np.isfinite(after).any()):
        return None
    highest, settled = float(np.nanmax(before)), float(np.nanmax(after))
    return (highest, settled) if highest > STANDS_OUT * settled else None


def beyond(chart: Lines) -> str:
    """That a run's first steps go beyond the chart, in words; empty = they do not."""
    cut = warm_up(chart)
    if cut is None:
        return ""
    return f"{chart.title}: the first steps took up to {said(cut[0], chart.unit)}, beyond the chart"


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
