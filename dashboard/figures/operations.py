"""Operations: which take the time, the bus bandwidth of collectives, and one rank step by step."""

from typing import Any

import numpy as np
import pandas as pd

from lockstep.dashboard.address import utc
from lockstep.dashboard.figures import colours
from lockstep.dashboard.figures.picture import Picture, escaped, nothing
from lockstep.dashboard.figures.units import quantity

SHARES_TITLE = "Time in collectives by operation, sum over all ranks (s)"
SHARES_HELP = (
    "From arrival to completion, waiting for late ranks included: a long bar is either much"
    " communication or a late rank. The arrivals below show which."
)
BARS_AT_MOST = 16


def shares(frame: pd.DataFrame, chosen: str = "") -> Picture:
    """Bars of total seconds, by operation and group.

    Args:
        frame: As protocol.Source.collectives gives it.
        chosen: The operation that is looked at, marked by a word.
    """
    known = frame[np.isfinite(frame["total_seconds"])] if len(frame) else frame
    if known.empty or not known["total_seconds"].sum() > 0:
        return nothing(SHARES_TITLE, "No collectives are known in this range.", SHARES_HELP)
    sums = (
        known.groupby(["op", "group"], sort=False)[["total_seconds", "count"]].sum().reset_index()
    )
    sums = sums.sort_values("total_seconds", ascending=False, kind="stable", ignore_index=True)
    sums["share"] = sums["total_seconds"] / sums["total_seconds"].sum()
    shown = sums.head(BARS_AT_MOST)
    names = [
        escaped(f"{op} ({group})" + (" ◀ chosen" if op == chosen else ""))
        for op, group in zip(shown["op"], shown["group"], strict=True)
    ]
    bar = {
        "type": "bar", "orientation": "h", "y": names, "x": shown["total_seconds"].tolist(),
        "text": [f"{share:.0%}" for share in shown["share"]], "textposition": "outside",
        "cliponaxis": False, "marker": {"color": colours.colour(0)},
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
    return Picture(SHARES_TITLE, {"data": [bar], "layout": layout}, sums, text, note, SHARES_HELP)


# How fast collectives were for their size, beside how fast the same ones were at their best.

BUSBW_TITLE = "Bus bandwidth by message size (bytes/s)"
BUSBW_HELP = (
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
    sized = frame[(frame["busbw"] > 0) & (frame["bytes"] > 0)]
    sized = sized.reset_index(drop=True)
    best = expected(sized)
    if chosen:
        best, sized = best[sized["op"] == chosen], sized[sized["op"] == chosen]
    if sized.empty:
        return nothing(
            BUSBW_TITLE, "No sizes and times of collectives are known in this range.", BUSBW_HELP
        )
    table = sized.assign(expected=best)
    table["share of expected"] = table["busbw"] / table["expected"]
    ops = list(dict.fromkeys(sized["op"]))
    data = []
    for index, op in enumerate(ops[:SERIES_AT_MOST]):
        rows = sized[sized["op"] == op].sort_values("bytes")
        data.append({
            "type": "scatter", "mode": "markers", "name": escaped(op),
            "x": rows["bytes"].tolist(), "y": rows["busbw"].tolist(),
            "text": [escaped(f"group {group}, {count:,} times")
                     for group, count in zip(rows["group"], rows["count"], strict=True)],
            "marker": {"symbol": SYMBOLS[index], "size": 10, "color": colours.colour(index)},
            "hovertemplate": "%{text}<br>%{x:.3s}B: %{y:.3s}B/s<extra>%{fullData.name}</extra>",
        })  # fmt: skip
    for index, (group, rows) in enumerate(table[best.notna()].groupby("group"), len(data)):
        line = rows.drop_duplicates("bytes").sort_values("bytes")
        data.append({
            "type": "scatter", "mode": "lines", "name": f"best of group {escaped(str(group))}",
            "x": line["bytes"].tolist(), "y": line["expected"].tolist(),
            "line": {"dash": "dash", "width": 1, "shape": "hv", "color": colours.colour(index)},
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
    top = sized.iloc[int(sized["busbw"].argmax())]
    text = (
        f"The highest is {quantity(float(top['busbw']), 'bytes/s')}, of {top['op']} with"
        f" {quantity(float(top['bytes']), 'bytes')}."
    )
    return Picture(BUSBW_TITLE, {"data": data, "layout": layout}, table[list(COLUMNS)], text,
                   _note(best, ops), BUSBW_HELP)  # fmt: skip


def _note(best: "pd.Series[float]", ops: list[str]) -> str:
    left = len(ops) - SERIES_AT_MOST
    parts = [f"{left} more operations are only in the table."] if left > 0 else []
    if best.notna().any():
        parts.append("Dashed: the best of the group in this run with that size or a smaller one.")
    else:
        parts.append(
            "No expected line: no group of this run has two sizes or operations. lockstep run"
            " allreduce --probe measures what the network can do."
        )
    return " ".join(parts)


# What one rank did for a few steps: an operation a bar, a kind of operation a row.

GANTT_TITLE = "Operations (ms since the left edge)"
GANTT_HELP = (
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
        return nothing(GANTT_TITLE, "No operation was recorded in this range.", GANTT_HELP)
    rows = operations.groupby("op")["seconds"].sum().sort_values(ascending=False)
    kept = operations[operations["op"].isin(rows.index[:MOST_ROWS])]
    kept = kept.nlargest(MOST_BARS, "seconds").sort_values("start", kind="stable")
    begun = float(operations["start"].min())
    kinds = kinds_of(kept)
    data = [_bars(kept[kinds == kind], kind, begun) for kind in KINDS if (kinds == kind).any()]
    # In the order in which a step goes through them.
    order = [escaped(op) for op in dict.fromkeys(kept["op"])]
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
        GANTT_TITLE, {"data": data, "layout": layout}, operations, _gantt_text(operations, rows),
        f"The {len(kept):,} longest operations; {left:,} are in the table only." if left else "",
        GANTT_HELP,
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
        "y": [escaped(str(op)) for op in some["op"]],
        "text": [f"step {step}" for step in steps],
        "textposition": "none",
        "hovertemplate": "%{y}, %{text}: %{x:.3f} ms<extra>" + kind + "</extra>",
        "marker": {
            "color": colours.colour(place),
            "pattern": {"shape": colours.pattern(place)},
        },
    }


def _gantt_text(operations: pd.DataFrame, rows: "pd.Series[float]") -> str:
    steps = operations["step"].nunique()
    return (
        f"{len(operations):,} operations of {steps} step{'s' * (steps != 1)} from "
        f"{utc(float(operations['start'].min()))}; the most time went into {rows.index[0]}: "
        f"{quantity(float(rows.iloc[0]), 's')}."
    )
