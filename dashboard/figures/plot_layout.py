"""Axes, headings and what all pictures of lines share, as Plotly's layout."""

from collections.abc import Sequence
from typing import Any

from dashboard.figures import room
from dashboard.figures.axis import Axis
from dashboard.figures.escape import text
from dashboard.figures.units import unit
from dashboard.figures.value_range import NOTHING_BUT_ZERO
from dashboard.shapes import Lines, Span

_KIND_LETTERS = 12


def common(height: int) -> dict[str, Any]:
    """Size, one cursor through all charts, and a zoom that a live page keeps."""
    return {
        "height": height,
        # Nothing may push the margins: asking whether something does costs a second drawing.
        "margin": {"l": room.LEFT, "r": room.RIGHT, "t": room.TOP, "b": room.BOTTOM,
                   "autoexpand": False},
        "hovermode": "x unified",
        # The cursor's line goes through all charts; the box tells of the one that is pointed at.
        "hoversubplots": "single",
        "dragmode": "zoom",
        "showlegend": False,
        "uirevision": "kept",
    }  # fmt: skip


def shared_axis(shown: Axis, span: Span | None, anchor: str) -> dict[str, Any]:
    """The x axis of all charts, written below the lowest one, whose y axis is `anchor`."""
    spikes = {"showspikes": True, "spikemode": "across", "spikesnap": "cursor",
              "spikethickness": 1, "spikedash": "dot"}  # fmt: skip
    layout = shown.layout() | spikes | {"anchor": anchor, "showgrid": True}
    if span is not None and shown.kind != "step":
        layout["range"] = [shown.place(span.start), shown.place(span.end)]
    return layout


def value_axis(
    chart: Lines, ends: tuple[float, float], domain: tuple[float, float]
) -> dict[str, Any]:
    """The y axis of a chart."""
    known = unit(chart.unit)
    # Between 0 and nothing there are no ticks: half a millibyte would be none.
    ticks = {"tickvals": [0.0]} if ends == NOTHING_BUT_ZERO else {"nticks": 5}
    return ticks | {
        "domain": list(domain),
        "anchor": "x",
        "range": list(ends),
        "tickformat": known.ticks,
        "ticksuffix": known.suffix,
        "zeroline": False,
    }


def lane_axis(rows: Sequence[str], domain: tuple[float, float]) -> dict[str, Any]:
    """The y axis of the lane of events: a word a row."""
    return {
        "domain": list(domain),
        "anchor": "x",
        "range": [-0.6, len(rows) - 0.4],
        "tickvals": list(range(len(rows))),
        "ticktext": [text(row, _KIND_LETTERS) for row in rows],
        "fixedrange": True,
        "zeroline": False,
    }


def heading(words: str, top: float) -> dict[str, Any]:
    """The title of a chart, over its upper left corner."""
    return {
        "xref": "paper", "yref": "paper", "x": 0.0, "y": top, "xanchor": "left",
        "yanchor": "bottom", "yshift": 2, "showarrow": False, "text": f"<b>{text(words)}</b>",
        "font": {"size": 13},
    }  # fmt: skip
