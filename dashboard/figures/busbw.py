"""How fast collectives were for their size, beside how fast the same ones were at their best."""

import numpy as np
import pandas as pd

from lockstep.dashboard.figures import escape, strokes
from lockstep.dashboard.figures.nothing import nothing
from lockstep.dashboard.figures.picture import Picture
from lockstep.dashboard.figures.quantity import quantity

TITLE = "Bus bandwidth by message size (bytes/s)"
HELP = (
    "Bus bandwidth as nccl-tests defines it: bytes over time, times 2 (n - 1) / n for an all-reduce"
    " of n ranks; it compares with what the hardware can do, whatever the operation. It rises with"
    " the size until the link is full. The time is from the arrival of the last rank where that is"
    " known, so that waiting for a late rank is not counted as a slow link."
)
SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "star", "hexagon")
SERIES_AT_MOST = len(SYMBOLS)
COLUMNS = ("op", "group", "bytes", "count", "busbw", "expected", "share of expected")


def expected(frame: pd.DataFrame) -> "pd.Series[float]":
    """(rows,) bytes/s that each should reach: the best of its group with that size or a smaller.

    A larger message is not slower: of the curves that nccl-tests measures, bus bandwidth rises with
    the size until the link is full. NaN where a group has nothing to compare with.

    Args:
        frame: As protocol.Source.collectives gives it.
    """
    best = pd.Series(np.nan, index=frame.index, dtype="float64")
    for _, rows in frame.groupby("group"):
        known = rows[rows["busbw"] > 0].sort_values("bytes", kind="stable")
        if len(known) > 1:
            # Of equal sizes all have the best of them to reach.
            by_size = known.groupby("bytes")["busbw"].max().cummax()
            best[known.index] = known["bytes"].map(by_size)
    return best


def busbw(frame: pd.DataFrame, chosen: str = "") -> Picture:
    """Markers by operation over the size, both axes logarithmic, and the expected line.

    Args:
        frame: As protocol.Source.collectives gives it.
        chosen: The operation that is looked at; empty = all.
    """
    told = frame[(frame["busbw"] > 0) & (frame["bytes"] > 0)]
    told = told.reset_index(drop=True)
    best = expected(told)
    if chosen:
        best, told = best[told["op"] == chosen], told[told["op"] == chosen]
    if told.empty:
        return nothing(TITLE, "No sizes and times of collectives are known in this range.", HELP)
    table = told.assign(expected=best)
    table["share of expected"] = table["busbw"] / table["expected"]
    ops = list(dict.fromkeys(told["op"]))
    data = []
    for place, op in enumerate(ops[:SERIES_AT_MOST]):
        rows = told[told["op"] == op].sort_values("bytes")
        data.append({
            "type": "scatter", "mode": "markers", "name": escape.text(op),
            "x": rows["bytes"].tolist(), "y": rows["busbw"].tolist(),
            "text": [escape.text(f"group {group}, {count:,} times")
                     for group, count in zip(rows["group"], rows["count"], strict=True)],
            "marker": {"symbol": SYMBOLS[place], "size": 10, "color": strokes.colour(place)},
            "hovertemplate": "%{text}<br>%{x:.3s}B: %{y:.3s}B/s<extra>%{fullData.name}</extra>",
        })  # fmt: skip
    for place, (group, rows) in enumerate(table[best.notna()].groupby("group"), len(data)):
        line = rows.drop_duplicates("bytes").sort_values("bytes")
        data.append({
            "type": "scatter", "mode": "lines", "name": f"best of group {escape.text(str(group))}",
            "x": line["bytes"].tolist(), "y": line["expected"].tolist(),
            "line": {"dash": "dash", "width": 1, "shape": "hv", "color": strokes.colour(place)},
            "hoverinfo": "skip",
        })  # fmt: skip
    layout = {
        "height": 380,
        "margin": {"l": 8, "r": 8, "t": 32, "b": 84},
        "xaxis": {"type": "log", "exponentformat": "SI", "ticksuffix": "B", "dtick": 1,
                  "title": {"text": "bytes of a rank, logarithmic"}},
        "yaxis": {"type": "log", "exponentformat": "SI", "ticksuffix": "B/s", "dtick": 1,
                  "title": {"text": "bus bandwidth, logarithmic"}, "automargin": True},
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
    }  # fmt: skip
    top = told.iloc[int(told["busbw"].argmax())]
    text = (
        f"The highest is {quantity(float(top['busbw']), 'bytes/s')}, of {top['op']} with"
        f" {quantity(float(top['bytes']), 'bytes')}."
    )
    return Picture(TITLE, {"data": data, "layout": layout}, table[list(COLUMNS)], text,
                   _note(best, ops), HELP)  # fmt: skip


def _note(best: "pd.Series[float]", ops: list[str]) -> str:
    left = len(ops) - SERIES_AT_MOST
    parts = [f"{left} more operations are only in the table."] if left > 0 else []
    if best.notna().any():
        parts.append("Dashed: the best of the group in this run with that size or a smaller one.")
    else:
        parts.append(
            "No expected line: no group of this run tells of two sizes or operations. lockstep run"
            " allreduce --probe measures what the network can do."
        )
    return " ".join(parts)
