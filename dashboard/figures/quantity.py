"""Ratios to a peer, which are times and not percent; everything else is as `units` says it."""

import math

from lockstep.dashboard.figures import units
from lockstep.dashboard.shapes import FleetMetric

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
        return units.said(value, "ratio")
    if not math.isfinite(value) or unit not in (TIMES, COUNT):
        return units.said(value, unit)
    return f"{value:.2f}×" if unit == TIMES else f"{value:,.0f}"


def unit_name(unit: str) -> str:
    """A unit as titles have it."""
    known = {TIMES: "×", SHARE: "%", COUNT: "count"}
    return known.get(unit) or units.unit(unit).title


def unit_of(metric: FleetMetric) -> str:
    """Of its values; a ratio that begins at 0 is a share."""
    return SHARE if metric.unit == "ratio" and metric.low == 0.0 else metric.unit
