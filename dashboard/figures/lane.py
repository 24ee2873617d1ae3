"""The lane of events: a row a kind, and a vertical line through every chart below it."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from lockstep.dashboard.address import utc
from lockstep.dashboard.figures.axis import Axis
from lockstep.dashboard.figures.picture import escaped
from lockstep.dashboard.palette import SEVERITY, severity_word
from lockstep.dashboard.shapes import Event, Severity

AT_MOST = 200
"""Events that are drawn; more lines would hide the charts."""
LONGEST = 120
ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.UNKNOWN, Severity.NOTE, Severity.OK)
DASHES = {
    Severity.CRITICAL: "solid",
    Severity.WARNING: "dash",
    Severity.UNKNOWN: "dashdot",
    Severity.NOTE: "dot",
    Severity.OK: "dot",
}


def worst(events: Sequence[Event], most: int = AT_MOST) -> tuple[Event, ...]:
    """At most so many, the worst and then the latest kept, in the order of time."""
    ranked = sorted(events, key=lambda event: (ORDER.index(event.severity), -event.at))
    return tuple(sorted(ranked[:most], key=lambda event: event.at))


def kinds(events: Sequence[Event]) -> tuple[str, ...]:
    """The rows of the lane, from below: the kind with the worst event is on top."""
    place = {
        kind: min(ORDER.index(event.severity) for event in events if event.kind == kind)
        for kind in {event.kind for event in events}
    }
    return tuple(sorted(place, key=lambda kind: (-place[kind], kind)))


def markers(events: Sequence[Event], axis: Axis, yaxis: str) -> list[dict[str, Any]]:
    """Traces of the lane: a bar for what lasts, and a marker a severity.

    Args:
        events: As worst() gives them.
        axis: The shared one.
        yaxis: Name of the lane's y axis, as `y3`.
    """
    rows = {kind: index for index, kind in enumerate(kinds(events))}
    traces = [_bars(events, axis, yaxis, rows)]
    for severity in ORDER:
        chosen = [event for event in events if event.severity == severity]
        if chosen:
            shade = SEVERITY[severity]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": shade.word,
                    "x": [axis.place(event.at) for event in chosen],
                    "y": [rows[event.kind] for event in chosen],
                    "text": [escaped(describe(event), LONGEST) for event in chosen],
                    "customdata": [[event.node, event.gpu, event.rank] for event in chosen],
                    "hovertemplate": "%{text}",
                    "marker": {"symbol": shade.symbol, "size": 10, "color": _COLOURS[severity]},
                    "yaxis": yaxis,
                    "showlegend": False,
                }
            )
    return [trace for trace in traces if trace["x"]]


def verticals(events: Sequence[Event], axis: Axis) -> list[dict[str, Any]]:
    """A line through all charts where an event begins; its dash says how bad it is."""
    return [
        {
            "type": "line",
            "xref": "x",
            "yref": "paper",
            "x0": axis.place(event.at),
            "x1": axis.place(event.at),
            "y0": 0,
            "y1": 1,
            "opacity": 0.6,
            "layer": "below",
            "line": {"width": 1, "dash": DASHES[event.severity], "color": _COLOURS[event.severity]},
        }
        for event in events
    ]


def describe(event: Event) -> str:
    """An event in words: how bad, what, when."""
    when = utc(event.at) if event.until is None else f"{utc(event.at)} to {utc(event.until)}"
    return f"{SEVERITY[event.severity].word}, {event.kind}: {event.text} ({when})"


def table(events: Sequence[Event]) -> pd.DataFrame:
    """One row an event, in the order of time."""
    return pd.DataFrame(
        {
            "at (UTC)": [utc(event.at) for event in events],
            "until (UTC)": ["" if event.until is None else utc(event.until) for event in events],
            "severity": [severity_word(event.severity) for event in events],
            "kind": [event.kind for event in events],
            "what": [event.text for event in events],
            "run": [event.run for event in events],
            "node": [event.node for event in events],
            "GPU": pd.array([event.gpu for event in events], dtype="Int64"),
            "rank": pd.array([event.rank for event in events], dtype="Int64"),
        }
    )


def left_out(events: Sequence[Event], shown: Sequence[Event]) -> str:
    """How many events are not drawn, in words; empty = all are."""
    gone = len(events) - len(shown)
    return f"{gone} of {len(events)} events are not drawn: the worst are kept." if gone else ""


def _bars(events: Sequence[Event], axis: Axis, yaxis: str, rows: dict[str, int]) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[int | None] = []
    for event in events:
        if event.until is not None:
            x += [axis.place(event.at), axis.place(event.until), None]
            y += [rows[event.kind], rows[event.kind], None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "line": {"width": 5, "color": _COLOURS[Severity.UNKNOWN]},
        "opacity": 0.6,
        "hoverinfo": "skip",
        "yaxis": yaxis,
        "showlegend": False,
    }


_COLOURS = {
    Severity.CRITICAL: "#000002",
    Severity.WARNING: "#000006",
    Severity.UNKNOWN: "#000005",
    Severity.NOTE: "#000001",
    Severity.OK: "#000003",
}
"""The theme's colours by the hues of palette.CATEGORICAL: vermillion, brown or yellow, grey, blue,
green; see figures.strokes."""
