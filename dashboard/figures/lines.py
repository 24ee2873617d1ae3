"""Pictures over time: charts, one below the other, with one shared axis and a lane of events."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from lockstep.dashboard.figures import lane
from lockstep.dashboard.figures.axis import CHART, axis
from lockstep.dashboard.figures.charts import Other, beyond, figure
from lockstep.dashboard.figures.picture import Picture, nothing
from lockstep.dashboard.figures.traces import LONGEST_NAME, left_out, names
from lockstep.dashboard.figures.units import said
from lockstep.dashboard.shapes import Event, Floats, Lines, Span


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
        kind: Of the axis: one of axis.WORDS.
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
        figure=figure(told, drawn, shown, span, other, CHART),
        table=long(known),
        text=summed(told, events),
        note=_joined(
            *sorted({chart.sampling for chart in told}),
            *(left_out(chart) for chart in told),
            *(beyond(chart) for chart in told),
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
        min(float(chart.times[0]) for chart in charts),
        max(float(chart.times[-1]) for chart in charts),
    )


def _silent(titles: Sequence[str]) -> str:
    return f"Not reported: {', '.join(titles)}." if titles else ""


def _laid(other: Other | None) -> str:
    return f"{other.called} is laid on the start of this run." if other is not None else ""


def _joined(*parts: str) -> str:
    return " ".join(part if part.endswith(".") else f"{part}." for part in parts if part)


def long(charts: Sequence[Lines]) -> pd.DataFrame:
    """One row a moment and line of every chart, as each chart has its own moments.

    Returns:
        Columns `chart, line, unit, time (UTC), step, value`; `step` is NaN where nobody told it.
    """
    pieces = [(chart, name) for chart in charts for name in chart.values]
    if not pieces:
        return pd.DataFrame(columns=["chart", "line", "unit", "time (UTC)", "step", "value"])
    sizes = [len(chart.times) for chart, _ in pieces]
    return pd.DataFrame(
        {
            "chart": _repeated([chart.title for chart, _ in pieces], sizes),
            "line": _repeated([name for _, name in pieces], sizes),
            "unit": _repeated([chart.unit for chart, _ in pieces], sizes),
            "time (UTC)": _moments(np.concatenate([chart.times for chart, _ in pieces])),
            "step": np.concatenate([_steps(chart) for chart, _ in pieces]),
            "value": np.concatenate([chart.values[name] for chart, name in pieces]),
        }
    )


def _steps(chart: Lines) -> Floats:
    return np.full(len(chart.times), np.nan) if chart.steps is None else chart.steps


def _moments(times: Floats) -> pd.DatetimeIndex:
    return pd.to_datetime(np.round(times * 1e3), unit="ms", utc=True)


def _repeated(words: Sequence[str], sizes: Sequence[int]) -> "pd.Categorical[str]":
    known = list(dict.fromkeys(words))
    places = {word: index for index, word in enumerate(known)}
    codes = np.repeat(np.array([places[word] for word in words]), sizes)
    return pd.Categorical.from_codes(codes, categories=pd.Index(known))


NOTHING = "No values were reported for this range."


def summed(charts: Sequence[Lines], events: Sequence[Event]) -> str:
    """Several charts: what the first line of each did, and how many events there were."""
    if not charts:
        return NOTHING
    sentences = [f"{chart.title}, {_line(chart, _main(chart))}" for chart in charts if names(chart)]
    return "; ".join(sentences) + f". {_counted(events)}"


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


def _counted(events: Sequence[Event]) -> str:
    if not events:
        return "No events."
    kinds = sorted({event.kind for event in events})
    counts = (f"{sum(event.kind == kind for event in events)} {kind}" for kind in kinds)
    return f"Events: {', '.join(counts)}."


QUIET = (
    "disk", "network", "errors", "throttle", "ecc", "replays", "pcie_traffic", "nvlink",
    "nvlink_errors", "nvlink_traffic",
)  # fmt: skip
"""Keys of charts whose 0 a word says as well as a line; that of a loss or a throughput is news."""


def folded(charts: Sequence[Lines]) -> tuple[list[Lines], str]:
    """Those that are drawn, and a sentence on what is left out because it is 0 throughout.

    Args:
        charts: With values; where every one of them would go, none does.
    """
    drawn: list[Lines] = []
    said: list[str] = []
    for chart in charts:
        zeros = [name for name, values in chart.values.items() if _is_zero(values)]
        with_values = [name for name, values in chart.values.items() if np.isfinite(values).any()]
        if chart.key not in QUIET or not zeros or chart.band:
            drawn.append(chart)
        elif len(zeros) == len(with_values):
            said.append(chart.title)
        else:
            kept = {name: line for name, line in chart.values.items() if name not in zeros}
            drawn.append(replace(chart, values=kept))
            said.append(f"of {chart.title} {', '.join(each[:LONGEST_NAME] for each in zeros)}")
    if not drawn:
        return list(charts), ""
    return drawn, f"All 0: {'; '.join(said)}." if said else ""


def _is_zero(values: Floats) -> bool:
    known = values[np.isfinite(values)]
    return bool(len(known)) and not known.any()
