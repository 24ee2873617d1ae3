"""The phases of a step of two runs as bars beside each other."""

from typing import Any

import pandas as pd

from lockstep.dashboard.figures import strokes
from lockstep.dashboard.figures.nothing import nothing
from lockstep.dashboard.figures.picture import Picture
from lockstep.dashboard.figures.units import said

TITLE = "Phases of a step, median over ranks (s)"
HELP = (
    "Where a step goes, a and b. A phase that grew in b is where to look; grad_sync grows when the"
    " others wait for a straggler."
)
BAR_PIXELS, REST_PIXELS = 44, 90


def phases_beside(told: pd.DataFrame) -> Picture:
    """Bars of both runs, phase by phase.

    Args:
        told: Columns `phase, a, b, difference, change`, as comparing.places.phases gives them.
    """
    if told.empty:
        return nothing(TITLE, "Nobody told the phases of either run.", HELP)
    return Picture(
        title=TITLE,
        figure={
            "data": [_bars(told, "a", 0), _bars(told, "b", 1)],
            "layout": {
                "height": BAR_PIXELS * len(told) + REST_PIXELS,
                "barmode": "group",
                "margin": {"l": 8, "r": 8, "t": 30, "b": 40},
                "xaxis": {"title": {"text": "seconds per step"}, "rangemode": "tozero",
                          "tickformat": "~s", "ticksuffix": "s"},
                "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
                "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"},
            },
        },
        table=told,
        text=_text(told),
        help=HELP,
    )  # fmt: skip


def _bars(told: pd.DataFrame, run: str, place: int) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": run,
        "x": told[run].to_numpy(float),
        "y": list(told["phase"]),
        "text": [said(value, "s") for value in told[run]],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {
            "color": strokes.colour(place),
            "pattern": {"shape": "/" if place else "", "solidity": 0.25},
        },
        "hovertemplate": "%{y}: %{text}",
    }


def _text(told: pd.DataFrame) -> str:
    pairs = (
        f"{phase}: {said(a, 's')} in a, {said(b, 's')} in b"
        for phase, a, b in zip(told["phase"], told["a"], told["b"], strict=True)
    )
    return f"{'; '.join(pairs)}."
