"""How the values of a fleet are spread: most places are alike, and the others stand apart."""

import numpy as np
import pandas as pd

from lockstep.dashboard.figures import deviation, strokes
from lockstep.dashboard.figures.nothing import nothing
from lockstep.dashboard.figures.picture import Picture
from lockstep.dashboard.figures.quantity import SHARE, quantity, unit_name, unit_of
from lockstep.dashboard.shapes import FleetSnapshot

BINS = 40
_LOGARITHMIC = {"type": "log", "dtick": 1, "tickformat": ",d"}


def histogram(shown: FleetSnapshot) -> Picture:
    """Places by value; those far from their peers hatched, and in another colour."""
    unit = unit_of(shown.metric)
    title = f"Spread of: {shown.metric.title} ({unit_name(unit)})"
    known = shown.values[np.isfinite(shown.values)].astype(np.float64)
    if not known.size:
        return nothing(title, "No GPU told anything at this time.", shown.metric.help)
    factor = 100.0 if unit == SHARE else 1.0
    away = deviation.of_fleet(shown)[np.isfinite(shown.values)]
    low, high = float(known.min()), float(known.max())
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    alike, _ = np.histogram(known[~away], edges)
    apart, _ = np.histogram(known[away], edges)
    middles = (edges[:-1] + edges[1:]) / 2
    bars = {
        "as their peers": (alike, strokes.colour(0), ""),
        "far from their peers": (apart, strokes.colour(1), "/"),
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
