"""Pictures over time: one chart, or a stack of them with one shared axis and a lane of events."""

from collections.abc import Sequence

from dashboard.figures import lane, room
from dashboard.figures.axis import axis
from dashboard.figures.charts import Other, figure
from dashboard.figures.line_tables import long, wide
from dashboard.figures.line_words import NOTHING, described, summed
from dashboard.figures.nothing import nothing
from dashboard.figures.picture import Picture
from dashboard.figures.traces import left_out, names
from dashboard.figures.units import titled
from dashboard.figures.zeros import folded
from dashboard.shapes import Event, Lines, Span


def single(
    lines: Lines, events: Sequence[Event] = (), span: Span | None = None, kind: str = "time"
) -> Picture:
    """One chart, and the lane of events over it where there are any.

    Args:
        lines: Its lines; at most traces.AT_MOST are drawn, beside the band.
        events: At most lane.AT_MOST are drawn.
        span: That the axis shows, and where relative time begins; None = as far as the lines go.
        kind: Of the axis: one of axis.KINDS.
    """
    title = titled(lines.title, lines.unit)
    if not names(lines):
        return nothing(title, NOTHING, lines.help)
    shown = axis(kind, [lines], *_ends([lines], span))
    drawn = lane.worst(events)
    return Picture(
        title=title,
        figure=figure([lines], drawn, shown, span, None, room.SINGLE),
        table=wide(lines),
        text=described(lines),
        note=_joined(lines.sampling, left_out(lines), shown.note, lane.left_out(events, drawn)),
        help=lines.help,
        query=lines.query,
    )


def stack(
    charts: Sequence[Lines],
    events: Sequence[Event] = (),
    span: Span | None = None,
    kind: str = "time",
    other: Other | None = None,
    title: str = "Model and node on one axis",
) -> Picture:
    """Several charts, one below the other, with one axis, one cursor and one zoom.

    Args:
        charts: From above; one without values, or with nothing but zeros where these are no news,
            takes no room and is named in the note.
        events: The lane over all charts, and lines through them; at most lane.AT_MOST are drawn.
        span: That the axis shows, and where relative time begins; None = as far as the lines go.
        kind: Of the axis: one of axis.KINDS.
        other: Another run, dashed; its start is laid on the start of this one.
        title: Of the picture.
    """
    known = [chart for chart in charts if names(chart)]
    if not known:
        return nothing(title, NOTHING)
    # What is 0 in one run may not be so in the other.
    told, zeros = folded(known) if other is None else (known, "")
    shown = axis(kind, charts, *_ends(told, span))
    drawn = lane.worst(events)
    return Picture(
        title=title,
        figure=figure(told, drawn, shown, span, other, room.CHART),
        table=long(known),
        text=summed(told, events),
        note=_joined(
            *sorted({chart.sampling for chart in told}),
            *(left_out(chart) for chart in told),
            zeros,
            _silent([chart.title for chart in charts if not names(chart)]),
            shown.note,
            _laid(other) if shown.kind == "time" else "",
            lane.left_out(events, drawn),
        ),
        help="\n\n".join(f"{chart.title}: {chart.help}" for chart in told if chart.help),
        query="\n".join(f"{chart.title}: {chart.query}" for chart in told if chart.query),
    )


def _ends(charts: Sequence[Lines], span: Span | None) -> tuple[float, float]:
    if span is not None:
        return span.start, span.end
    return (
        min(float(each.times[0]) for each in charts),
        max(float(each.times[-1]) for each in charts),
    )


def _silent(titles: Sequence[str]) -> str:
    return f"Nobody told: {', '.join(titles)}." if titles else ""


def _laid(other: Other | None) -> str:
    return f"{other.called} is laid on the start of this run." if other is not None else ""


def _joined(*parts: str) -> str:
    return " ".join(part if part.endswith(".") else f"{part}." for part in parts if part)
