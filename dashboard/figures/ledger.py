"""Where the rank-seconds of runs went: one stacked bar a run."""

from collections.abc import Sequence

import pandas as pd

from lockstep.dashboard.figures import colours
from lockstep.dashboard.figures.picture import Picture, escaped, nothing
from lockstep.dashboard.palette import SILENT
from lockstep.dashboard.shapes import KEPT_BUCKETS, LedgerRow

TITLE = "Where the time went, share of all rank-seconds of a run (%)"
HELP = (
    "Each rank-second of a run, over all its attempts, is in one part. Computing and communication"
    " are progress that was kept: together they are the useful share. A straggler's part is what"
    " it made steps longer, on every rank. Unknown is what was not recorded."
)
RUNS_AT_MOST = 20
TOP, BAR, AXIS, BELOW = 32, 34, 36, 124
"""Pixels: for the chart's buttons, of a run, for the numbers below, and with the legend."""
LEAST = 0.0005
"""Share of a run below which a part has no colour of its own anywhere."""
UNKNOWN = "unknown"


def parts(rows: Sequence[LedgerRow]) -> pd.DataFrame:
    """One row a run and part: `run, team, part, rank_seconds, share`."""
    shares = [
        (row.run, row.team, part, seconds, seconds / row.rank_seconds)
        for row in rows
        if row.rank_seconds > 0
        for part, seconds in (*row.buckets.items(), *row.stragglers.items())
        if seconds > 0
    ]
    return pd.DataFrame(shares, columns=["run", "team", "part", "rank_seconds", "share"])


def ledger(rows: Sequence[LedgerRow]) -> Picture:
    """Bars of runs, the newest on top; what was kept begins at the left."""
    table = parts(rows)
    if table.empty:
        return nothing(TITLE, "The time of every run here is unknown.", HELP)
    shown = [row for row in rows if row.rank_seconds > 0][:RUNS_AT_MOST]
    names = [escaped(row.run) for row in shown]
    by_run = {
        run: dict(zip(mine["part"], mine["share"], strict=True))
        for run, mine in table.groupby("run", sort=False)
    }
    every = [part for part in dict.fromkeys(table["part"])
             if any(by_run[row.run].get(part, 0.0) >= LEAST for row in shown)]  # fmt: skip
    order = [*(part for part in KEPT_BUCKETS if part in every),
             *(part for part in every if part not in (*KEPT_BUCKETS, UNKNOWN)),
             *(part for part in every if part == UNKNOWN)]  # fmt: skip
    bars = []
    for index, part in enumerate(order):
        shares = [100.0 * by_run[row.run].get(part, 0.0) for row in shown]
        colour = SILENT if part == UNKNOWN else colours.colour(index)
        bars.append({
            "type": "bar", "orientation": "h", "name": escaped(part), "y": names, "x": shares,
            # On a pattern nothing can be read.
            "text": [f"{share:.0f} %" if share >= 4 and index < 6 else "" for share in shares],
            "textposition": "inside", "insidetextanchor": "middle", "textangle": 0,
            "marker": {"color": colour,
                       "pattern": {"shape": ("", "/", "\\", "x", "-", ".")[index // 6 % 6]}},
            "hovertemplate": f"%{{y}}: {escaped(part)} %{{x:.2f}} %<extra></extra>",
        })  # fmt: skip
    bars_high = BAR * len(shown)
    layout = {
        "barmode": "stack",
        "height": TOP + bars_high + BELOW,
        "margin": {"l": 8, "r": 16, "t": TOP, "b": BELOW},
        # A share that finds no room in its part is not told there.
        "uniformtext": {"minsize": 10, "mode": "hide"},
        "xaxis": {"range": [0, 100], "ticksuffix": " %"},
        "yaxis": {"automargin": True, "autorange": "reversed", "type": "category"},
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": -AXIS / bars_high,
            "yanchor": "top",
            "traceorder": "normal",
        },
    }
    left = len([row for row in rows if row.rank_seconds > 0]) - len(shown)
    notes = [f"{left} more runs are only in the table."] if left else []
    text = " ".join(f"{row.run}: {row.sentence}" for row in shown[:3])
    query = next((row.query for row in rows if row.query), "")
    return Picture(
        TITLE, {"data": bars, "layout": layout}, table, text, " ".join(notes), HELP, query
    )
