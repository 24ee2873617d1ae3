"""A map of ranks over time: which rank, and since when."""

from typing import Any

import numpy as np
import pandas as pd

from lockstep.dashboard.address import utc
from lockstep.dashboard.figures import escape, scale
from lockstep.dashboard.figures.deviation import HOLDS_BACK
from lockstep.dashboard.figures.nothing import nothing
from lockstep.dashboard.figures.picture import Picture
from lockstep.dashboard.figures.quantity import quantity, unit_name
from lockstep.dashboard.shapes import Matrix

MOST_ROWS = 200
"""Rows that a chart can have and still be read; the largest are kept."""
MOST_MARKS = 20
ROW_PIXELS, LEAST_PIXELS, MOST_PIXELS = 22, 160, 720
MILLISECONDS = 1000.0


def matrix(shown: Matrix, *, axis: str = "time", meaning: str = "") -> Picture:
    """Rows × windows as colours, the largest place of each outstanding row marked.

    Args:
        shown: Ratios to a peer are drawn around 1, everything else from its least to its most.
        axis: `time` (UTC) or `step`.
        meaning: Picture.help.

    Returns:
        Its markers carry the name of their row as `customdata`.
    """
    title = f"{shown.title} ({unit_name(shown.unit)})"
    values = np.asarray(shown.values, dtype=np.float64)
    if not values.size or not np.isfinite(values).any():
        return nothing(title, "Nobody recorded these values in this range.", meaning)
    peaks = np.where(np.isnan(values), -np.inf, values).max(axis=1)
    kept = np.sort(np.argsort(-peaks, kind="stable")[:MOST_ROWS])
    order = kept[np.argsort(-peaks[kept], kind="stable")]
    places = np.where(np.isnan(values), -np.inf, values).argmax(axis=1)
    by_step = axis == "step" and shown.steps is not None
    across = shown.steps if by_step and shown.steps is not None else shown.times * MILLISECONDS
    limit = HOLDS_BACK if shown.unit == "ratio" else np.inf
    marked = [row for row in order if peaks[row] >= limit][:MOST_MARKS]
    figure = {
        "data": [
            _cells(shown, values[kept], across, kept),
            _marks(shown, across, marked, places),
        ],
        "layout": _layout(len(kept), "step" if by_step else "time"),
    }
    left = len(values) - len(kept)
    return Picture(
        title, figure, _table(shown, values, order, places), _text(shown, values, peaks, places),
        note=f"The {MOST_ROWS} rows with the largest values; {left} are left out." if left else "",
        help=meaning,
    )  # fmt: skip


def _cells(shown: Matrix, values: Any, across: Any, kept: Any) -> dict[str, Any]:
    ratio = shown.unit == "ratio"
    colours = scale.around_one(values) if ratio else scale.rising(values)
    return {
        "type": "heatmap",
        "z": values.astype(np.float32),
        "x": across,
        "y": [escape.text(shown.rows[row]) for row in kept],
        "hoverongaps": False,
        "hovertemplate": "%{y}<br>%{x}<br>%{z:.3~s} " + unit_name(shown.unit) + "<extra></extra>",
        # Without a title, which a low map would cut; that of the picture has the unit.
        "colorbar": {"thickness": 12, "nticks": 5, "ticksuffix": "×" if ratio else ""},
        **colours,
    }


def _marks(shown: Matrix, across: Any, rows: list[Any], places: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [across[places[row]] for row in rows],
        "y": [escape.text(shown.rows[row]) for row in rows],
        "customdata": [shown.rows[row] for row in rows],
        "marker": scale.MARKER,
        "name": "largest of its row",
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _layout(rows: int, across: str) -> dict[str, Any]:
    height = min(max(ROW_PIXELS * rows + 90, LEAST_PIXELS), MOST_PIXELS)
    axis = {"title": {"text": "step"}} if across == "step" else {
        "type": "date", "title": {"text": "time (UTC)"},
    }  # fmt: skip
    return {
        "height": height,
        "margin": {"l": 8, "r": 8, "t": 32, "b": 40},
        "xaxis": axis | {"showgrid": False},
        "yaxis": {"autorange": "reversed", "type": "category", "automargin": True,
                  "showgrid": False, "ticksuffix": " "},
    }  # fmt: skip


def _table(shown: Matrix, values: Any, order: Any, places: Any) -> pd.DataFrame:
    with np.errstate(all="ignore"):
        medians = [float(np.median(row[np.isfinite(row)])) if np.isfinite(row).any() else np.nan
                   for row in values[order]]  # fmt: skip
    frame = pd.DataFrame({
        "row": [shown.rows[row] for row in order],
        f"median ({unit_name(shown.unit)})": medians,
        f"largest ({unit_name(shown.unit)})": [values[row][places[row]] for row in order],
        "largest at": [utc(shown.times[places[row]]) for row in order],
    })  # fmt: skip
    if shown.steps is not None:
        frame["largest at step"] = [shown.steps[places[row]] for row in order]
    return frame


def _text(shown: Matrix, values: Any, peaks: Any, places: Any) -> str:
    row = int(np.argmax(peaks))
    middle = float(np.median(values[np.isfinite(values)]))
    return (
        f"{shown.rows[row]} has the largest value, {quantity(float(peaks[row]), shown.unit)} at "
        f"{utc(shown.times[places[row]])}; the median of all is {quantity(middle, shown.unit)}."
    )
