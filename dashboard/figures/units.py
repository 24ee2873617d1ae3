"""Units: on an axis, in a hover, in a title, and in a sentence."""

import math
from dataclasses import dataclass

from lockstep.analyzer.report import figures
from lockstep.dashboard.shapes import FleetMetric


@dataclass(frozen=True, slots=True)
class Unit:
    """How a unit is written.

    Attributes:
        title: In titles.
        ticks: d3 format of the numbers on the axis and in hovers.
        suffix: Behind them.
    """

    title: str
    ticks: str
    suffix: str


UNITS = {
    "s": Unit("s", ".4~s", "s"),
    "ratio": Unit("%", ".3~p", ""),
    "nats": Unit("nats", ".4~g", ""),
    "celsius": Unit("°C", ".4~g", ""),
    "W": Unit("W", ".4~s", "W"),
    "Hz": Unit("Hz", ".4~s", "Hz"),
    "bytes": Unit("bytes", ".4~s", "B"),
    "bytes/s": Unit("bytes/s", ".4~s", "B/s"),
}


def unit(name: str) -> Unit:
    """How it is written; one that we do not know stands as it is."""
    return UNITS.get(name, Unit(name, ".4~s", ""))


def titled(title: str, name: str) -> str:
    """A title with its unit."""
    written = unit(name).title
    return f"{title} ({written})" if written else title


def said(value: float, name: str) -> str:
    """A value of a line in words: `45.2 ms`, `87 %`, `1.98 GHz`; what is not known is a dash.

    A ratio of lines is a share of a whole; one to a peer is said by figures.quantity.
    """
    if not math.isfinite(value):
        return figures.UNKNOWN
    if name == "ratio":
        return f"{100 * value:.3g} %"
    if name in _WORDS:
        return figures.cell(value, _WORDS[name])
    if unit(name).suffix:
        return f"{figures.prefixed(value)}{unit(name).suffix}"
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{number} {name}".strip()


_WORDS = {"s": "seconds", "nats": "nats", "celsius": "celsius"}
"""Units of lockstep.analyzer.report.figures."""


# Ratios to a peer, which are times and not percent; everything else is as `units` says it.

TIMES = "ratio"
"""To a peer: `1.52×`."""
SHARE = "share"
"""Of a whole: `87 %`."""
COUNT = "events"


def quantity(value: float, unit: str) -> str:
    """A value as text; what is not known is a dash.

    Args:
        value: In the unit.
        unit: TIMES, SHARE, COUNT, or one of figures.units.
    """
    if unit == SHARE:
        return said(value, "ratio")
    if not math.isfinite(value) or unit not in (TIMES, COUNT):
        return said(value, unit)
    return f"{value:.2f}×" if unit == TIMES else f"{value:,.0f}"


def unit_name(name: str) -> str:
    """A unit as titles have it."""
    known = {TIMES: "×", SHARE: "%", COUNT: "count"}
    return known.get(name) or unit(name).title


def unit_of(metric: FleetMetric) -> str:
    """Of its values; a ratio that begins at 0 is a share."""
    return SHARE if metric.unit == "ratio" and metric.low == 0.0 else metric.unit
