"""Colour scales of maps, and how lines differ: by colour, dash and pattern together.

Colours are the theme's own, by the names that Streamlit's theme for Plotly gives them: the browser
puts the colours of `theme.chartCategoricalColors` in their place, light and dark
(streamlit/elements/lib/streamlit_plotly_theme.py).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lockstep.dashboard import palette
from lockstep.dashboard.palette import CATEGORICAL

COLOURS = len(CATEGORICAL["light"])
DASHES = ("solid", "dot", "dashdot", "longdash", "longdashdot")
BASELINE = "dash"
"""Of lines of another run only."""
PATTERNS = ("", "/", "x", "-", "\\", "|", "+", ".")
BAND_OPACITY = 0.4
EDGE_OPACITY = 0.7


def colour(index: int) -> str:
    """The theme's colour of a line, by its place in the chart."""
    return f"#{index % COLOURS + 1:06d}"


def dash(index: int) -> str:
    """The dash of a line, by its place in the chart."""
    return DASHES[index % len(DASHES)]


def pattern(index: int) -> str:
    """The pattern of an area, by its place in the chart."""
    return PATTERNS[index % len(PATTERNS)]


# Colour scales: cividis, or blue to orange around one for ratios to a peer.

MARKER: dict[str, Any] = {
    "symbol": "diamond",
    "size": 8,
    "color": palette.LIGHT_BACKGROUND,
    "line": {"color": palette.DARK_BACKGROUND, "width": 1.5},
}
"""Of places to look at: white with a dark edge is seen on every colour of both scales."""
LEAST_REACH = 0.1
"""A ratio's scale reaches at least so far from one: noise is no colour."""


def around_one(values: ArrayLike, reach: float | None = None) -> dict[str, Any]:
    """Plotly's colour keys for ratios: white at 1, orange above, blue below.

    Args:
        values: Any shape; NaN is passed over.
        reach: How far the ends are from one; None = as far as 99 % of the values.
    """
    if reach is None:
        known = _known(values)
        far = float(np.quantile(np.abs(known - 1), 0.99)) if known.size else 0.0
        reach = min(max(far, LEAST_REACH), 1.0)
    return {"colorscale": palette.scale(palette.DIVERGING), "zmin": 1 - reach, "zmax": 1 + reach}


def rising(values: ArrayLike, low: float | None = None, high: float | None = None,
           *, bad_is_low: bool = False) -> dict[str, Any]:  # fmt: skip
    """Plotly's colour keys for a level; the bad end is the bright one.

    Args:
        values: Any shape; NaN is passed over.
        low, high: Ends; None = those of the data.
        bad_is_low: Then low values are bright.
    """
    known = _known(values)
    least = low if low is not None else float(known.min()) if known.size else 0.0
    most = high if high is not None else float(known.max()) if known.size else 1.0
    most = most if most > least else least + (abs(least) * 0.01 or 1.0)
    colours = palette.scale(palette.SEQUENTIAL)
    return {"colorscale": colours, "zmin": least, "zmax": most, "reversescale": bad_is_low}


def _known(values: ArrayLike) -> np.ndarray:
    cells = np.asarray(values, dtype=np.float64)
    return cells[np.isfinite(cells)]
