"""The lines of one chart as Plotly's traces: SVG, gaps stay gaps, every value is kept.

A phase has one place in every figure, and with it one colour and one pattern.

Whatever other phases are there, and in whatever order a source tells them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lockstep.collector.contract.words import PHASES
from lockstep.dashboard.figures import colours
from lockstep.dashboard.figures.axis import Axis
from lockstep.dashboard.figures.picture import escaped
from lockstep.dashboard.figures.units import unit
from lockstep.dashboard.shapes import Floats, Lines

AT_MOST = 8
"""Lines of a chart; more cannot be told apart."""
LONGEST_NAME = 28
NAMED_AT_MOST = 3
"""Of the lines that are left out."""
EXACT = 2.0**24
"""Whole numbers below it are what they are with 32 bits."""


def names(lines: Lines) -> tuple[str, ...]:
    """Those that are drawn, in order: the band first, below the others; lines of nothing are not.

    A chart has at most AT_MOST lines beside its band; of more, those that are 0 go first.
    """
    with_values = [name for name, values in lines.values.items() if np.isfinite(values).any()]
    band = [name for name in lines.band or () if name in with_values]
    band = band if len(band) == 2 else []
    rest = [name for name in with_values if name not in band]
    if len(rest) > AT_MOST:
        flat = [name for name in rest if not np.nan_to_num(lines.values[name]).any()]
        kept = sorted(rest, key=flat.__contains__)[:AT_MOST]
        rest = [name for name in rest if name in kept]
    return (*band, *(ordered(rest) if lines.stacked else rest))


def left_out(lines: Lines) -> str:
    """Which lines are not drawn although they have values, in words; empty = none."""
    drawn = names(lines)
    gone = [name for name, values in lines.values.items()
            if np.isfinite(values).any() and name not in drawn]  # fmt: skip
    if not gone:
        return ""
    are = "1 line of {} is" if len(gone) == 1 else f"{len(gone)} lines of {{}} are"
    more = f" and {len(gone) - NAMED_AT_MOST} more" if len(gone) > NAMED_AT_MOST else ""
    named = ", ".join(gone[:NAMED_AT_MOST])
    return f"{are.format(lines.title)} in the table only: {named}{more}."


def traces(lines: Lines, axis: Axis, yaxis: str) -> list[dict[str, Any]]:
    """Its band, lines or areas.

    Args:
        lines: Of one chart.
        axis: The shared one.
        yaxis: Name of its y axis, as `y3`.
    """
    x = _along(axis, lines.times, lines.steps)
    drawn = names(lines)
    band = _band(lines)
    return [
        *_filled(lines, band, x, yaxis),
        *(
            _trace(lines, name, index, x, yaxis, _kind(lines, name, band))
            for index, name in enumerate(drawn)
        ),
    ]


def beside(
    lines: Lines, axis: Axis, yaxis: str, shown: Sequence[str], called: str, shift: float
) -> list[dict[str, Any]]:
    """Lines of another run on the same chart: dashed, in the colours of the same lines.

    Args:
        lines: Of the other run.
        axis: The shared one.
        yaxis: Name of the chart's y axis.
        shown: Names of this run's lines, in the order of the chart.
        called: What the other run is called in legends.
        shift: Seconds that are added to its times.
    """
    x = _along(axis, lines.times + shift, lines.steps)
    if axis.kind == "step" and lines.steps is None:
        return []
    return [
        {
            **_common(lines, x, lines.values[name], yaxis),
            "name": escaped(f"{name} ({called})", 2 * LONGEST_NAME),
            "line": {"color": colours.colour(index), "dash": colours.BASELINE, "width": 1.5},
            "opacity": 0.8,
        }
        for index, name in enumerate(shown)
        if name in lines.values and name not in _band(lines)
    ]


def _along(axis: Axis, times: Floats, steps: Floats | None) -> Floats:
    """Where moments stand, in half the bytes where they stay apart: dates do not."""
    x = axis.places(times, steps)
    if axis.kind == "time" or not (np.abs(x[np.isfinite(x)]) < EXACT).all():
        return x
    half = x.astype(np.float32)
    known = np.isfinite(x)
    same = np.unique(half[known]).size == np.unique(x[known]).size
    return half if same else x  # type: ignore[return-value]


def _band(lines: Lines) -> tuple[str, ...]:
    drawn = names(lines)
    return tuple(name for name in lines.band or () if name in drawn)


def _kind(lines: Lines, name: str, band: tuple[str, ...]) -> str:
    if lines.stacked:
        return "area"
    if name not in band or len(band) < 2:
        return "line"
    return "edge"


def _trace(
    lines: Lines, name: str, number: int, x: Floats, yaxis: str, kind: str
) -> dict[str, Any]:
    trace = _common(lines, x, lines.values[name], yaxis) | {"name": escaped(name, LONGEST_NAME)}
    if kind == "area":
        standing = place(name, number)
        return trace | {
            "stackgroup": lines.key,
            "line": {"color": colours.colour(standing), "width": 0.5},
            "fillpattern": {"shape": colours.pattern(standing), "size": 6, "solidity": 0.25},
        }
    if kind == "line":
        line = {"color": colours.colour(number), "dash": colours.dash(number), "width": 1.8}
        return trace | {"line": line}
    edge = {"color": colours.colour(0), "width": 1, "dash": "dot"}
    return trace | {"line": edge, "opacity": colours.EDGE_OPACITY}


def _filled(lines: Lines, band: tuple[str, ...], x: Floats, yaxis: str) -> list[dict[str, Any]]:
    """The area between both edges of a band, a closed piece for each stretch without a gap.

    Plotly's own fill to the next line passes over gaps.
    """
    if len(band) < 2:
        return []
    low, high = (lines.values[name] for name in band)
    known = np.isfinite(low) & np.isfinite(high) & np.isfinite(x)
    ends = np.flatnonzero(np.diff(np.concatenate(([0], known.astype(np.int8), [0]))))
    gap = np.array([np.nan])
    across: list[Floats] = []
    up: list[Floats] = []
    for first, stop in ends.reshape(-1, 2):
        piece = slice(first, stop)
        across += [x[piece], x[piece][::-1], gap]
        up += [low[piece], high[piece][::-1], gap]
    if not across:
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": np.concatenate(across),
            "y": np.concatenate(up).astype(np.float32),
            "yaxis": yaxis,
            "fill": "toself",
            "line": {"color": colours.colour(0), "width": 0},
            "opacity": colours.BAND_OPACITY,
            "hoverinfo": "skip",
            "showlegend": False,
        }
    ]


def _common(lines: Lines, x: Floats, values: Floats, yaxis: str) -> dict[str, Any]:
    known = unit(lines.unit)
    return {
        "type": "scatter",
        "mode": "lines+markers" if _lonely(values) else "lines",
        "marker": {"size": 4},
        "x": x,
        "y": values.astype(np.float32),
        "yaxis": yaxis,
        "connectgaps": False,
        "showlegend": False,
        "hovertemplate": f"%{{y:{known.ticks}}}{known.suffix}",
    }


def _lonely(values: Floats) -> bool:
    """Whether a value stands between two gaps: a line would not show it."""
    known = np.concatenate(([False], np.isfinite(values), [False]))
    return bool((known[1:-1] & ~known[:-2] & ~known[2:]).any())


_PLACES = {str(phase): place for place, phase in enumerate(PHASES)}


def ordered(names: Iterable[str]) -> list[str]:
    """Phases in the order in which they run; what is none comes last, as it was."""
    return sorted(names, key=lambda name: _PLACES.get(name, len(_PLACES)))


def place(name: str, otherwise: int) -> int:
    """Of a phase among all of them; `otherwise` of what is none."""
    return _PLACES.get(name, otherwise)
