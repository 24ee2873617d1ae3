"""Charts one below the other as one Plotly figure: one x axis, one cursor, one zoom."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dashboard.figures import lane, plot_layout, room
from dashboard.figures.axis import Axis
from dashboard.figures.endlabels import LONGEST, labels
from dashboard.figures.traces import beside, names, traces
from dashboard.figures.units import titled
from dashboard.figures.value_range import ends, last, reach
from dashboard.shapes import Event, Lines, Span

LEAST_LETTERS = 6
"""Of the name of another run's line; with room for fewer, the run alone is named."""


@dataclass(frozen=True, slots=True)
class Other:
    """Another run on the same charts, dashed.

    Attributes:
        charts: Its lines; those with the key of a chart are drawn on it.
        called: What it is called at the end of its lines.
        start: Unix seconds of its start, laid on the start of the run.
    """

    charts: Sequence[Lines]
    called: str
    start: float


def figure(
    charts: Sequence[Lines],
    events: Sequence[Event],
    shown: Axis,
    span: Span | None,
    other: Other | None,
    height: int,
) -> dict[str, Any]:
    """The lane where there are events, then the charts.

    Args:
        charts: With values; at least one.
        events: That are drawn.
        shown: The shared axis.
        span: That it shows; None = as far as the lines go.
        other: Another run.
        height: Of a chart, in pixels.
    """
    rows = lane.kinds(events)
    lanes = [room.LANE_ROW * len(rows)] if rows else []
    place = room.Room((*lanes, *[height] * len(charts)))
    data: list[dict[str, Any]] = []
    words: list[dict[str, Any]] = []
    layout = plot_layout.common(place.height)
    if rows:
        layout["yaxis"] = plot_layout.lane_axis(rows, place.domain(0))
        data += lane.markers(events, shown, "y")
        words.append(plot_layout.heading("Events", place.domain(0)[1]))
    for index, chart in enumerate(charts, start=len(lanes)):
        number = "" if index == 0 else str(index + 1)
        domain = place.domain(index)
        own = traces(chart, shown, f"y{number}")
        far = _other(chart, other, shown, f"y{number}")
        scale = reach(own + far, chart)
        layout[f"yaxis{number}"] = plot_layout.value_axis(chart, scale, domain)
        data += own + far
        words.append(plot_layout.heading(titled(chart.title, chart.unit), domain[1]))
        words += labels(ends(chart) + _other_end(chart, far, other), scale, domain, height)
    count = len(place.heights)
    layout["xaxis"] = plot_layout.shared_axis(shown, span, "y" if count == 1 else f"y{count}")
    return {
        "data": data,
        "layout": layout | {"annotations": words, "shapes": lane.verticals(events, shown)},
    }


def _other(chart: Lines, other: Other | None, shown: Axis, yaxis: str) -> list[dict[str, Any]]:
    """Areas have no room for a second run; it stands in its own chart on the page of Compare."""
    if other is None or chart.stacked:
        return []
    return [
        trace
        for lines in other.charts
        if lines.key == chart.key
        for trace in beside(
            lines, shown, yaxis, names(chart), other.called, shown.start - other.start
        )
        if np.isfinite(trace["y"]).any()
    ]


def _other_end(
    chart: Lines, far: Sequence[dict[str, Any]], other: Other | None
) -> list[tuple[str, float]]:
    """One name for all: their colours are those of the lines beside them."""
    if other is None or not far:
        return []
    own = [name for name in names(chart) if name not in (chart.band or ())]
    run, name = f"- - {other.called}", own[0] if len(own) == 1 else f"{len(far)} lines"
    letters = LONGEST - len(run) - 2
    # A few letters of a name tell nothing.
    named = f"{run}: {name}" if letters >= min(len(name), LEAST_LETTERS) else run
    return [(named, last(far[0]["y"]))]
