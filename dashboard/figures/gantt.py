"""What one rank did for a few steps: an operation a bar, a kind of operation a row."""

from typing import Any

import numpy as np
import pandas as pd

from lockstep.dashboard.address import utc
from lockstep.dashboard.figures import escape, strokes
from lockstep.dashboard.figures.nothing import nothing
from lockstep.dashboard.figures.picture import Picture
from lockstep.dashboard.figures.quantity import quantity

TITLE = "Operations (ms since the left edge)"
HELP = (
    "Each row is a kind of operation, each bar one of them. A long bar in a row of computation is"
    " time of this rank's own; a long bar in a row of collectives is mostly waiting for others. The"
    " rank that waits least is the one the others wait for."
)
MOST_BARS = 1_500
"""Bars that a browser draws at once without a pause; the longest are kept."""
MOST_ROWS = 24
MILLISECONDS = 1000.0
KINDS = ("computation", "collective", "data")
ROW_PIXELS = 24


def gantt(operations: pd.DataFrame) -> Picture:
    """Operations over time.

    Args:
        operations: Of one rank, as Source.operations gives them.
    """
    if operations.empty:
        return nothing(TITLE, "No operation was recorded in this range.", HELP)
    rows = operations.groupby("op")["seconds"].sum().sort_values(ascending=False)
    kept = operations[operations["op"].isin(rows.index[:MOST_ROWS])]
    kept = kept.nlargest(MOST_BARS, "seconds").sort_values("start", kind="stable")
    begun = float(operations["start"].min())
    kinds = kinds_of(kept)
    data = [_bars(kept[kinds == kind], kind, begun) for kind in KINDS if (kinds == kind).any()]
    # In the order in which a step goes through them.
    order = [escape.text(op) for op in dict.fromkeys(kept["op"])]
    layout = {
        "height": ROW_PIXELS * len(order) + 130,
        "barmode": "overlay", "bargap": 0.2,
        "margin": {"l": 8, "r": 8, "t": 32, "b": 40},
        "xaxis": {"title": {"text": f"ms since {utc(begun)}"}},
        "yaxis": {"type": "category", "categoryorder": "array", "categoryarray": order[::-1],
                  "automargin": True, "ticksuffix": " "},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
    }  # fmt: skip
    left = len(operations) - len(kept)
    return Picture(
        TITLE, {"data": data, "layout": layout}, operations, _text(operations, rows),
        f"The {len(kept):,} longest operations; {left:,} are in the table only." if left else "",
        HELP,
    )  # fmt: skip


def kinds_of(operations: pd.DataFrame) -> "pd.Series[str]":
    """computation, collective or data, by row: who has a group waits for others in it."""
    names = operations["op"].astype(str)
    together = operations["group"].fillna("").astype(str).ne("")
    kinds = np.where(together, KINDS[1], np.where(names.str.startswith("data"), KINDS[2], KINDS[0]))
    return pd.Series(kinds, index=operations.index, dtype="str")


def _bars(some: pd.DataFrame, kind: str, begun: float) -> dict[str, Any]:
    place = KINDS.index(kind)
    steps = some["step"].astype("Int64").astype(str)
    return {
        "type": "bar",
        "orientation": "h",
        "name": kind,
        "base": ((some["start"] - begun) * MILLISECONDS).round(4).to_numpy(np.float64),
        "x": (some["seconds"] * MILLISECONDS).round(4).to_numpy(np.float64),
        "y": [escape.text(str(op)) for op in some["op"]],
        "text": [f"step {step}" for step in steps],
        "textposition": "none",
        "hovertemplate": "%{y}, %{text}: %{x:.3f} ms<extra>" + kind + "</extra>",
        "marker": {
            "color": strokes.colour(place),
            "pattern": {"shape": strokes.pattern(place)},
        },
    }


def _text(operations: pd.DataFrame, rows: "pd.Series[float]") -> str:
    steps = operations["step"].nunique()
    return (
        f"{len(operations):,} operations of {steps} step{'s' * (steps != 1)} from "
        f"{utc(float(operations['start'].min()))}; the most time went into {rows.index[0]}: "
        f"{quantity(float(rows.iloc[0]), 's')}."
    )
