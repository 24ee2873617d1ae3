"""Where the time of a step goes: of the slowest ranks beside their stage, or of two runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from lockstep.collector.contract.words import PHASES
from lockstep.dashboard.figures import colours
from lockstep.dashboard.figures.picture import Picture, escaped, nothing
from lockstep.dashboard.figures.units import quantity, said

TITLE = "Phases of a step, medians of the range, against the median of the stage (s)"
HELP = (
    "Seconds per step, medians over the range. A culprit's own phases are longer than the median's;"
    " everybody else has a longer grad_sync, because they wait for it."
)
RANKS_AT_MOST = 10
PATTERNS = colours.PATTERNS
"""Of Plotly: phases differ by their pattern as well as by their colour."""
NAMED = " ◀ named"
BAR_PIXELS, REST_PIXELS = 30, 150


def phases(ranks: pd.DataFrame, named: Sequence[int] = ()) -> Picture:
    """Stacked bars: the named ranks and the slowest, at most RANKS_AT_MOST, and who they should be.

    Args:
        ranks: As protocol.Source.ranks gives it.
        named: Ranks that the verdict accuses; they stand first, and no median includes them.
    """
    known = [phase for phase in PHASES if _known(ranks, f"{phase}_seconds")]
    if not known:
        return nothing(TITLE, "No phases of steps are known in this range.", HELP)
    columns = [f"{phase}_seconds" for phase in known]
    accused = ranks["rank"].isin(list(named))
    shown = pd.concat([ranks[accused], ranks[~accused]]).head(RANKS_AT_MOST)
    rows = _medians(ranks, shown, columns, accused)
    for each in shown.to_dict("records"):
        mark = NAMED if each["rank"] in named else ""
        name = f"rank {each['rank']} ({each['node']}){mark}"
        rows.append((name, each["pp"], [float(each[column]) for column in columns]))
    excess = _excess(rows)
    table = pd.DataFrame(
        [
            {"who": name, **dict(zip((f"{phase} (s)" for phase in known), cells, strict=True)),
             **{f"{phase} over the median (s)": more for phase, more in
                zip(known, excess[name], strict=True)}}
            for name, _, cells in rows
        ]
    )  # fmt: skip
    names = [escaped(name) for name, _, _ in rows]
    bars = [
        {
            "type": "bar", "orientation": "h", "name": phase, "y": names,
            "x": [cells[index] for _, _, cells in rows],
            "customdata": [1e3 * excess[name][index] for name, _, _ in rows],
            "marker": {"color": colours.colour(PHASES.index(phase)),
                       "pattern": {"shape": PATTERNS[PHASES.index(phase)], "solidity": 0.3}},
            "hovertemplate": f"{phase}: %{{x:.4f}} s<br>over the median: %{{customdata:+.1f}} ms"
                             "<extra>%{y}</extra>",
        }
        for index, phase in enumerate(known)
    ]  # fmt: skip
    layout = {
        "barmode": "stack",
        "height": REST_PIXELS + BAR_PIXELS * len(rows),
        "margin": {"l": 8, "r": 8, "t": 32, "b": 72},
        "xaxis": {"title": {"text": "seconds per step"}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "automargin": True, "type": "category"},
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0,
                   "traceorder": "normal"},
    }  # fmt: skip
    left = len(ranks) - len(shown)
    note = f"{left:,} more ranks are not drawn; all are in the table of ranks." if left else ""
    figure = {"data": bars, "layout": layout}
    return Picture(TITLE, figure, table, _text(rows, excess, known), note, HELP)


def _known(ranks: pd.DataFrame, column: str) -> bool:
    return column in ranks and bool(np.isfinite(ranks[column]).any() and (ranks[column] > 0).any())


def _medians(
    ranks: pd.DataFrame, shown: pd.DataFrame, columns: list[str], accused: "pd.Series[bool]"
) -> list[tuple[str, int, list[float]]]:
    """Who the shown ranks should be like: a row for each of their stages."""
    rows = []
    stages = sorted(shown["pp"].unique().tolist())
    for stage in stages:
        mine = ranks["pp"] == stage
        peers = ranks[mine & ~accused]
        peers = peers if len(peers) else ranks[mine]
        where = f" of stage {stage}" if len(ranks["pp"].unique()) > 1 else ""
        others = " of the others" if accused.any() else ""
        name = f"median{where or others}"
        rows.append((name, stage, [float(value) for value in peers[columns].median()]))
    return rows


def _excess(rows: list[tuple[str, int, list[float]]]) -> dict[str, list[float]]:
    middle = {stage: cells for name, stage, cells in rows if name.startswith("median")}
    return {
        name: [mine - peers for mine, peers in zip(cells, middle[stage], strict=True)]
        for name, stage, cells in rows
    }


def _text(
    rows: list[tuple[str, int, list[float]]], excess: dict[str, list[float]], words: Sequence[str]
) -> str:
    first = next((name for name, _, _ in rows if not name.startswith("median")), None)
    if first is None or not np.isfinite(excess[first]).any():
        return f"Phases of {len(rows)} ranks; how they differ is unknown."
    place = int(np.nanargmax(excess[first]))
    more = excess[first][place]
    if more <= 0:
        return f"{_name(first)} spends no more time in any phase than the median."
    longer = f"{quantity(more, 's')} more per step in {words[place]}"
    return f"{_name(first)} spends {longer} than the median of its stage."


def _name(row: str) -> str:
    name = row.replace(NAMED, "")
    return f"{name[:1].upper()}{name[1:]}"


PAIR_TITLE = "Phases of a step, median over ranks (s)"
PAIR_HELP = (
    "Where a step goes, a and b. A phase that grew in b is where to look; grad_sync grows when the"
    " others wait for a straggler."
)
PAIR_PIXELS, PAIR_REST_PIXELS = 44, 90


def phases_beside(frame: pd.DataFrame) -> Picture:
    """Bars of both runs, phase by phase.

    Args:
        frame: Columns `phase, a, b, difference, change`, as comparing.places.phases gives them.
    """
    if frame.empty:
        return nothing(PAIR_TITLE, "The phases of neither run were reported.", PAIR_HELP)
    return Picture(
        title=PAIR_TITLE,
        figure={
            "data": [_bars(frame, "a", 0), _bars(frame, "b", 1)],
            "layout": {
                "height": PAIR_PIXELS * len(frame) + PAIR_REST_PIXELS,
                "barmode": "group",
                "margin": {"l": 8, "r": 8, "t": 30, "b": 40},
                "xaxis": {"title": {"text": "seconds per step"}, "rangemode": "tozero",
                          "tickformat": "~s", "ticksuffix": "s"},
                "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
                "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"},
            },
        },
        table=frame,
        text=_pair_text(frame),
        help=PAIR_HELP,
    )  # fmt: skip


def _bars(frame: pd.DataFrame, run: str, index: int) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": run,
        "x": frame[run].to_numpy(float),
        "y": list(frame["phase"]),
        "text": [said(value, "s") for value in frame[run]],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {
            "color": colours.colour(index),
            "pattern": {"shape": "/" if index else "", "solidity": 0.25},
        },
        "hovertemplate": "%{y}: %{text}",
    }


def _pair_text(frame: pd.DataFrame) -> str:
    pairs = (
        f"{phase}: {said(a, 's')} in a, {said(b, 's')} in b"
        for phase, a, b in zip(frame["phase"], frame["a"], frame["b"], strict=True)
    )
    return f"{'; '.join(pairs)}."
