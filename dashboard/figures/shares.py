"""Which operations take the time: one bar each, the longest first."""

import numpy as np
import pandas as pd

from lockstep.dashboard.figures import escape, strokes
from lockstep.dashboard.figures.nothing import nothing
from lockstep.dashboard.figures.picture import Picture
from lockstep.dashboard.figures.quantity import quantity

TITLE = "Time in collectives by operation, sum over all ranks (s)"
HELP = (
    "From arrival to completion, waiting for late ranks included: a long bar is either much"
    " communication or somebody late. Which of the two, the arrivals below say."
)
BARS_AT_MOST = 16


def shares(frame: pd.DataFrame, chosen: str = "") -> Picture:
    """Bars of total seconds, by operation and group.

    Args:
        frame: As protocol.Source.collectives gives it.
        chosen: The operation that is looked at, marked by a word.
    """
    told = frame[np.isfinite(frame["total_seconds"])] if len(frame) else frame
    if told.empty or not told["total_seconds"].sum() > 0:
        return nothing(TITLE, "No collectives are known in this range.", HELP)
    sums = told.groupby(["op", "group"], sort=False)[["total_seconds", "count"]].sum().reset_index()
    sums = sums.sort_values("total_seconds", ascending=False, kind="stable", ignore_index=True)
    sums["share"] = sums["total_seconds"] / sums["total_seconds"].sum()
    shown = sums.head(BARS_AT_MOST)
    names = [
        escape.text(f"{op} ({group})" + (" ◀ chosen" if op == chosen else ""))
        for op, group in zip(shown["op"], shown["group"], strict=True)
    ]
    bar = {
        "type": "bar", "orientation": "h", "y": names, "x": shown["total_seconds"].tolist(),
        "text": [f"{share:.0%}" for share in shown["share"]], "textposition": "outside",
        "cliponaxis": False, "marker": {"color": strokes.colour(0)},
        "hovertemplate": "%{y}: %{x:.3f} s, %{text}<extra></extra>",
    }  # fmt: skip
    layout = {
        "height": 114 + 30 * len(shown),
        "margin": {"l": 8, "r": 48, "t": 32, "b": 40},
        "xaxis": {"title": {"text": "seconds, all ranks together"}, "rangemode": "tozero"},
        "yaxis": {"automargin": True, "autorange": "reversed", "type": "category"},
        "showlegend": False,
    }
    first = sums.iloc[0]
    text = (
        f"{first['op']} of group {first['group']} takes the most time:"
        f" {quantity(float(first['total_seconds']), 's')}, {first['share']:.0%} of all."
    )
    left = len(sums) - len(shown)
    note = f"{left} more are only in the table." if left else ""
    return Picture(TITLE, {"data": [bar], "layout": layout}, sums, text, note, HELP)
