"""Ranks over time as a map, and the spread of each rank as a box."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from lockstep.dashboard.address import utc
from lockstep.dashboard.figures import colours
from lockstep.dashboard.figures.colours import MARKER, around_one, rising
from lockstep.dashboard.figures.deviation import HOLDS_BACK
from lockstep.dashboard.figures.picture import Picture, escaped, nothing
from lockstep.dashboard.figures.units import quantity, unit_name
from lockstep.dashboard.palette import SILENT
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
        return nothing(title, "These values were not recorded in this range.", meaning)
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
    colours = around_one(values) if ratio else rising(values)
    return {
        "type": "heatmap",
        "z": values.astype(np.float32),
        "x": across,
        "y": [escaped(shown.rows[row]) for row in kept],
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
        "y": [escaped(shown.rows[row]) for row in rows],
        "customdata": [shown.rows[row] for row in rows],
        "marker": MARKER,
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


def same_range(picture: Picture, other: Picture) -> tuple[Picture, Picture]:
    """Both pictures, the colours of their heat maps reaching over the values of both."""
    maps = [*_maps(picture), *_maps(other)]
    if not maps:
        return picture, other
    ends = {
        "zmin": min(heat_map["zmin"] for heat_map in maps),
        "zmax": max(heat_map["zmax"] for heat_map in maps),
    }
    return _with(picture, ends), _with(other, ends)


def _maps(shown: Picture) -> Iterator[dict[str, Any]]:
    return (trace for trace in shown.figure["data"] if trace.get("zmin") is not None)


def _with(shown: Picture, ends: dict[str, float]) -> Picture:
    data = [trace | ends if "zmin" in trace else trace for trace in shown.figure["data"]]
    return replace(shown, figure=shown.figure | {"data": data})


# How far each rank's own time lies above its peers', and how much that changes: a box a rank.

LATENESS_TITLE = "Own time over the median of its stage, windows of the range, by rank (×)"
LATENESS_HELP = (
    "A box spans the middle half of a rank's windows, its whiskers 5 % to 95 %. Peers lie around 1;"
    " a rank whose whole box lies to the right was late all the time, a long whisker to the right"
    " is a rank that was late for a while."
)
RANKS_AT_MOST = 24
BOX_QUANTILES = (5.0, 25.0, 50.0, 75.0, 95.0)
NAMED = " ◀ named"
BOX_PIXELS, REST_PIXELS = 28, 140


def lateness(matrix: Matrix, named: Sequence[int] = ()) -> Picture:
    """The named ranks, then those with the highest 95 %; at most RANKS_AT_MOST.

    Args:
        matrix: As protocol.Source.rank_times gives it; row i is rank i.
        named: Ranks that the verdict accuses: thick and marked by a word.
    """
    if not matrix.values.size or not np.isfinite(matrix.values).any():
        return nothing(
            LATENESS_TITLE, "No own times of ranks are known in this range.", LATENESS_HELP
        )
    known = np.flatnonzero(np.isfinite(matrix.values).any(axis=1))
    cells = np.nanpercentile(matrix.values[known], BOX_QUANTILES, axis=1)
    accused = np.isin(known, list(named))
    order = np.lexsort((-cells[4], ~accused))
    names = [matrix.rows[known[place]] + (NAMED if accused[place] else "") for place in order]
    table = pd.DataFrame(
        {"rank": names, **{f"{int(share)} %": cells[row][order]
                           for row, share in enumerate(BOX_QUANTILES)}}
    )  # fmt: skip
    shown = order[:RANKS_AT_MOST]
    boxes = [
        {
            "type": "box", "orientation": "h", "name": name,
            "y": [escaped(names[row]) for row in picked],
            **{key: [round(float(cells[quantile][shown[row]]), 4) for row in picked]
               for key, quantile in _KEYS.items()},
            "line": {"width": width, "color": colours.colour(colour)}, "boxpoints": False,
        }
        for colour, (name, width, picked) in enumerate((
            ("peers", 1, [row for row, place in enumerate(shown) if not accused[place]]),
            ("named by the verdict", 3, [row for row, place in enumerate(shown) if accused[place]]),
        ))
        if picked
    ]  # fmt: skip
    layout = {
        "height": REST_PIXELS + BOX_PIXELS * len(shown),
        "margin": {"l": 8, "r": 8, "t": 32, "b": 72},
        "xaxis": {"title": {"text": "× the median of the stage"}},
        "yaxis": {"automargin": True, "type": "category", "autorange": "reversed",
                  "categoryorder": "array",
                  "categoryarray": [escaped(names[row]) for row in range(len(shown))]},
        "boxmode": "overlay",
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
        "shapes": [{"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1,
                    "line": {"dash": "dot", "width": 1, "color": SILENT}}],
    }  # fmt: skip
    left = len(known) - len(shown)
    note = f"{left:,} ranks with lower values are not drawn." if left else ""
    text = _lateness_text(names, cells[2][order])
    figure = {"data": boxes, "layout": layout}
    return Picture(LATENESS_TITLE, figure, table, text, note, LATENESS_HELP)


_KEYS = {"lowerfence": 0, "q1": 1, "median": 2, "q3": 3, "upperfence": 4}


def _lateness_text(names: list[str], medians: "np.ndarray") -> str:
    place = int(np.argmax(medians))
    name = names[place].replace(NAMED, "")
    return (
        f"The highest median of windows is {medians[place]:.2f}×, that of {name}; the middle"
        f" rank has {np.median(medians):.2f}×."
    )
