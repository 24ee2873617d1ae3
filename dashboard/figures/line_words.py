"""Charts in words: the text alternative of a chart over time."""

from collections.abc import Sequence

import numpy as np

from dashboard.address import utc
from dashboard.figures.traces import names
from dashboard.figures.units import said
from dashboard.shapes import Event, Lines

NOTHING = "Nobody told any values for this range."


def described(lines: Lines) -> str:
    """One chart: the middle and the ends of each line, and when its largest value was."""
    drawn = names(lines)
    if not drawn:
        return f"{lines.title}: {NOTHING}"
    return (
        f"{lines.title}. "
        + "; ".join(_line(lines, name) + _most(lines, name) for name in drawn)
        + "."
    )


def summed(charts: Sequence[Lines], events: Sequence[Event]) -> str:
    """Several charts: what the first line of each did, and how many events there were."""
    if not charts:
        return NOTHING
    told = [f"{chart.title}, {_line(chart, _main(chart))}" for chart in charts if names(chart)]
    return "; ".join(told) + f". {_counted(events)}"


def _main(chart: Lines) -> str:
    drawn = names(chart)
    return next((name for name in drawn if name not in (chart.band or ())), drawn[0])


def _line(lines: Lines, name: str) -> str:
    values = lines.values[name]
    known = np.isfinite(values)
    low, middle, high = (float(reduce(values[known])) for reduce in (np.min, np.median, np.max))
    if low == high:
        return f"{name}: {said(low, lines.unit)} throughout"
    return (
        f"{name}: median {said(middle, lines.unit)}, {said(low, lines.unit)} to "
        f"{said(high, lines.unit)}"
    )


def _most(lines: Lines, name: str) -> str:
    values = lines.values[name]
    if np.nanmin(values) == np.nanmax(values):
        return ""
    return f", the largest at {utc(float(lines.times[int(np.nanargmax(values))]))}"


def _counted(events: Sequence[Event]) -> str:
    if not events:
        return "No events."
    kinds = sorted({event.kind for event in events})
    counts = (f"{sum(event.kind == kind for event in events)} {kind}" for kind in kinds)
    return f"Events: {', '.join(counts)}."
