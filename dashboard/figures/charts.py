"""Charts one below the other as one Plotly figure: one x axis, one cursor, one zoom."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.analyzer.align.grid import WARMUP_SHARE, WARMUP_STEPS
from lockstep.dashboard.figures import axis, lane
from lockstep.dashboard.figures.axis import LABEL, Axis
from lockstep.dashboard.figures.picture import escaped
from lockstep.dashboard.figures.traces import beside, names, traces
from lockstep.dashboard.figures.units import said, titled, unit
from lockstep.dashboard.shapes import Event, Floats, Lines, Span

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
    lanes = [axis.LANE_ROW * len(rows)] if rows else []
    place = axis.Room((*lanes, *[height] * len(charts)))
    data: list[dict[str, Any]] = []
    words: list[dict[str, Any]] = []
    layout = common(place.height)
    if rows:
        layout["yaxis"] = lane_axis(rows, place.domain(0))
        data += lane.markers(events, shown, "y")
        words.append(heading("Events", place.domain(0)[1]))
    for index, chart in enumerate(charts, start=len(lanes)):
        number = "" if index == 0 else str(index + 1)
        domain = place.domain(index)
        own = traces(chart, shown, f"y{number}")
        far = _other(chart, other, shown, f"y{number}")
        scale = reach(own + far, chart)
        layout[f"yaxis{number}"] = value_axis(chart, scale, domain)
        data += own + far
        words.append(heading(titled(chart.title, chart.unit), domain[1]))
        words += labels(ends(chart) + _other_end(chart, far, other), scale, domain, height)
    count = len(place.heights)
    layout["xaxis"] = shared_axis(shown, span, "y" if count == 1 else f"y{count}")
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


LONGEST = 16
"""Letters that the margin has room for."""
ALIKE = 3
"""Lines that end in one place from which they have one name together."""


def labels(
    ends: Sequence[tuple[str, float]],
    scale: tuple[float, float],
    domain: tuple[float, float],
    height: int,
) -> list[dict[str, Any]]:
    """A name beside the end of each line, pushed apart where they would overlap.

    Args:
        ends: Name and value at the end; a chart's lines.
        scale: Ends of its y axis.
        domain: Where the chart stands on the paper, from below.
        height: Its pixels.
    """
    low, high = scale
    ends = together(ends)
    named = short([name for name, _ in ends])
    ranked = sorted((value, index) for index, (_, value) in enumerate(ends))
    wanted = [height * (value - low) / (high - low) for value, _ in ranked]
    pixels = apart(wanted, LABEL, height)
    share = (domain[1] - domain[0]) / height
    return [
        {
            "xref": "paper",
            "yref": "paper",
            "x": 1.0,
            "y": domain[0] + pixel * share,
            "xanchor": "left",
            "yanchor": "middle",
            "xshift": 5,
            "showarrow": False,
            "text": escaped(named[index], LONGEST),
            "font": {"size": 11},
        }
        for pixel, (_, index) in zip(pixels, ranked, strict=True)
    ]


def together(ends: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The same ends, those of many lines in one place as one: `5 lines at 0`."""
    counts = Counter(value for _, value in ends)
    kept = [(name, value) for name, value in ends if counts[value] < ALIKE]
    return kept + [
        (f"{count} lines at 0" if value == 0 else f"{count} lines alike", value)
        for value, count in counts.items()
        if count >= ALIKE
    ]


def short(names: Sequence[str]) -> list[str]:
    """Names that the margin has room for; those that would look alike keep their last words."""
    cut = Counter(name[: LONGEST - 1] for name in names)
    return [
        name if len(name) <= LONGEST or cut[name[: LONGEST - 1]] == 1 else _tail(name)
        for name in names
    ]


def _tail(name: str) -> str:
    words = name.split() or [name]
    label = words[-1]
    for word in words[-2::-1]:
        if len(word) + len(label) + 2 > LONGEST:
            break
        label = f"{word} {label}"
    return f"…{label[-(LONGEST - 1) :]}"


def apart(wanted: Sequence[float], least: float, height: float) -> list[float]:
    """Rising places at least so far apart, as near to the wanted ones as one pass finds.

    Args:
        wanted: Rising.
        least: Between two.
        height: Where there is room, they stay in 0 to it.
    """
    count = len(wanted)
    step = np.arange(count) * least
    free = np.maximum.accumulate(np.asarray(wanted, float) - step)
    top = max(height - (count - 1) * least, 0.0)
    return [float(each) for each in np.clip(free, 0.0, top) + step]


_KIND_LETTERS = 12


def common(height: int) -> dict[str, Any]:
    """Size, one cursor through all charts, and a zoom that a live page keeps."""
    return {
        "height": height,
        # Nothing may push the margins: asking whether something does costs a second drawing.
        "margin": {"l": axis.LEFT, "r": axis.RIGHT, "t": axis.TOP, "b": axis.BOTTOM,
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
        "ticktext": [escaped(row, _KIND_LETTERS) for row in rows],
        "fixedrange": True,
        "zeroline": False,
    }


def heading(words: str, top: float) -> dict[str, Any]:
    """The title of a chart, over its upper left corner."""
    return {
        "xref": "paper", "yref": "paper", "x": 0.0, "y": top, "xanchor": "left",
        "yanchor": "bottom", "yshift": 2, "showarrow": False, "text": f"<b>{escaped(words)}</b>",
        "font": {"size": 13},
    }  # fmt: skip


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
    known = np.isfinite(chart.steps)
    if not known.any():
        return None
    first, last_step = float(chart.steps[known].min()), float(chart.steps[known].max())
    until = max(float(WARMUP_STEPS), WARMUP_SHARE * last_step)
    if first > until:
        return None
    values = np.vstack([chart.values[name] for name in names(chart)])
    later = chart.steps >= until
    before, after = values[:, ~later & known], values[:, later & known]
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
    line_ends: list[tuple[str, float]] = []
    below = 0.0
    for name in names(chart):
        value = last(chart.values[name])
        line_ends.append((name, below + value / 2 if chart.stacked else value))
        below += value
    return line_ends


def last(values: Floats) -> float:
    """The last value that is known; there is one."""
    return float(values[np.isfinite(values)][-1])
