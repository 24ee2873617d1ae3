"""Which values of a fleet are far from the others, and how all are spread: for the eye only."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.collector.contract.robust import MAD_TO_SIGMA
from lockstep.dashboard.figures import colours, deviation
from lockstep.dashboard.figures.picture import Picture, nothing
from lockstep.dashboard.figures.units import SHARE, quantity, unit_name, unit_of
from lockstep.dashboard.shapes import FleetMetric, FleetSnapshot

DEVIATES = 3.0
"""Spreads from which a part deviates: as the recording rules and
analyzer.causes.symptoms.series.MILD."""
SPREAD = 0.05
"""Of the median: what healthy parts differ by, so that peers that are all alike do not make a
deviation out of nothing. As `fleet` in the recording rules: a twentieth of the level."""
HOLDS_BACK = 1.1
"""Own time over peers from which a rank holds its run back (docs/method/peers.md)."""


def badness(metric: FleetMetric, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """(G,) the larger the worse; NaN stays NaN.

    Args:
        metric: Says which end is bad; where neither is, far from the median is.
        values: (G,).
    """
    if metric.higher is None:
        away: NDArray[np.float32] = np.abs(values - np.float32(_median(values)))
        return away
    return values if metric.higher else -values


def of_fleet(fleet: FleetSnapshot) -> NDArray[np.bool_]:
    """(G,) as `deviating`, among the places of the same run: who idles is no peer of who works."""
    away = np.zeros(len(fleet.values), np.bool_)
    group, runs = pd.factorize(fleet.runs.astype(object))
    for each in range(len(runs)):
        mine = group == each
        away[mine] = deviating(fleet.metric, fleet.values[mine])
    return away


def deviating(metric: FleetMetric, values: NDArray[np.float32]) -> NDArray[np.bool_]:
    """(G,) whether each is far on the bad side; what is not known is not.

    Own time has a limit of its own; errors deviate from one on; everything else by
    (value - median) / (1.4826 MAD + 5 % of the median) >= 3.
    """
    known = np.isfinite(values)
    if not known.any():
        return known
    if metric.key == "slowdown":
        return known & (values >= np.float32(HOLDS_BACK))
    if metric.key == "errors":
        return known & (values > 0)
    middle = _median(values)
    away = np.where(known, values - middle, 0.0)
    width = MAD_TO_SIGMA * float(np.median(np.abs(away[known]))) + SPREAD * abs(middle)
    side = np.abs(away) if metric.higher is None else away * (1 if metric.higher else -1)
    return known & (side >= DEVIATES * width) & (side > 0)


def worst(metric: FleetMetric, values: NDArray[np.float32], most: int) -> NDArray[np.int64]:
    """Indices of the worst known values, the worst first; equal ones in the order they have."""
    bad = badness(metric, values)
    known = np.flatnonzero(np.isfinite(bad))
    return known[np.argsort(-bad[known], kind="stable")[:most]]


def _median(values: NDArray[np.float32]) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else float("nan")


# How the values of a fleet are spread: most places are alike, and the others stand apart.

BINS = 40
_LOGARITHMIC = {"type": "log", "dtick": 1, "tickformat": ",d"}


def histogram(shown: FleetSnapshot) -> Picture:
    """Places by value; those far from their peers hatched, and in another colour."""
    unit = unit_of(shown.metric)
    title = f"Spread of: {shown.metric.title} ({unit_name(unit)})"
    known = shown.values[np.isfinite(shown.values)].astype(np.float64)
    if not known.size:
        return nothing(title, "No GPU reported anything at this time.", shown.metric.help)
    factor = 100.0 if unit == SHARE else 1.0
    away = deviation.of_fleet(shown)[np.isfinite(shown.values)]
    low, high = float(known.min()), float(known.max())
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    alike, _ = np.histogram(known[~away], edges)
    apart, _ = np.histogram(known[away], edges)
    middles = (edges[:-1] + edges[1:]) / 2
    bars = {
        "as their peers": (alike, colours.colour(0), ""),
        "far from their peers": (apart, colours.colour(1), "/"),
    }
    data = [
        {"type": "bar", "name": name, "x": middles * factor, "y": counts,
         "width": float(edges[1] - edges[0]) * factor,
         "marker": {"color": colour, "pattern": {"shape": shape}},
         "hovertemplate": "%{x:.3~s}: %{y} places<extra>" + name + "</extra>"}
        for name, (counts, colour, shape) in bars.items()
    ]  # fmt: skip
    # From below 1, so that one place alone has a height.
    top = float(np.log10(max(alike.max(), apart.max(), 1))) + 0.2
    layout = {
        "height": 280, "barmode": "stack", "bargap": 0.05,
        "margin": {"l": 8, "r": 8, "t": 32, "b": 40},
        "xaxis": {"title": {"text": unit_name(unit)}},
        "yaxis": {"title": {"text": "places"}} | (_LOGARITHMIC | {"range": [-0.4, top]}
                                                  if apart.any() else {}),
        "legend": {"orientation": "h", "y": -0.3, "yanchor": "top", "x": 0},
    }  # fmt: skip
    table = pd.DataFrame({
        "from": edges[:-1] * factor, "to": edges[1:] * factor,
        "as their peers": alike, "far from their peers": apart,
    })  # fmt: skip
    text = (
        f"{known.size:,} places; half of them are below {quantity(float(np.median(known)), unit)}, "
        f"all lie between {quantity(low, unit)} and {quantity(high, unit)}; "
        f"{int(away.sum()):,} are far from the others."
    )
    note = "The height is logarithmic, so that few places are seen." if apart.any() else ""
    return Picture(title, {"data": data, "layout": layout}, table, text, note, shown.metric.help)
