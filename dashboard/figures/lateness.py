"""How far each rank's own time lies above its peers', and how much that changes: a box a rank."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lockstep.dashboard.figures import escape, strokes
from lockstep.dashboard.figures.nothing import nothing
from lockstep.dashboard.figures.picture import Picture
from lockstep.dashboard.palette import SILENT
from lockstep.dashboard.shapes import Matrix

TITLE = "Own time over peers, windows of the range, by rank (×)"
HELP = (
    "A box spans the middle half of a rank's windows, its whiskers 5 % to 95 %. Peers lie around 1;"
    " a rank whose whole box lies to the right was late all the time, a long whisker to the right"
    " is a rank that was late for a while."
)
RANKS_AT_MOST = 24
QUANTILES = (5.0, 25.0, 50.0, 75.0, 95.0)
NAMED = " ◀ named"
BOX_PIXELS, REST_PIXELS = 28, 140


def lateness(matrix: Matrix, named: Sequence[int] = ()) -> Picture:
    """The named ranks, then those with the highest 95 %; at most RANKS_AT_MOST.

    Args:
        matrix: As protocol.Source.rank_times gives it; row i is rank i.
        named: Ranks that the verdict accuses: thick and marked by a word.
    """
    if not matrix.values.size or not np.isfinite(matrix.values).any():
        return nothing(TITLE, "No own times of ranks are known in this range.", HELP)
    told = np.flatnonzero(np.isfinite(matrix.values).any(axis=1))
    cells = np.nanpercentile(matrix.values[told], QUANTILES, axis=1)
    accused = np.isin(told, list(named))
    order = np.lexsort((-cells[4], ~accused))
    names = [matrix.rows[told[place]] + (NAMED if accused[place] else "") for place in order]
    table = pd.DataFrame(
        {"rank": names, **{f"{int(share)} %": cells[row][order]
                           for row, share in enumerate(QUANTILES)}}
    )  # fmt: skip
    shown = order[:RANKS_AT_MOST]
    boxes = [
        {
            "type": "box", "orientation": "h", "name": name,
            "y": [escape.text(names[row]) for row in picked],
            **{key: [round(float(cells[quantile][shown[row]]), 4) for row in picked]
               for key, quantile in _KEYS.items()},
            "line": {"width": width, "color": strokes.colour(colour)}, "boxpoints": False,
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
        "xaxis": {"title": {"text": "× the own time of its peers"}},
        "yaxis": {"automargin": True, "type": "category", "autorange": "reversed",
                  "categoryorder": "array",
                  "categoryarray": [escape.text(names[row]) for row in range(len(shown))]},
        "boxmode": "overlay",
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
        "shapes": [{"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1,
                    "line": {"dash": "dot", "width": 1, "color": SILENT}}],
    }  # fmt: skip
    left = len(told) - len(shown)
    note = f"{left:,} ranks with lower values are not drawn." if left else ""
    return Picture(TITLE, {"data": boxes, "layout": layout}, table, _text(names, cells[2][order]),
                   note, HELP)  # fmt: skip


_KEYS = {"lowerfence": 0, "q1": 1, "median": 2, "q3": 3, "upperfence": 4}


def _text(names: list[str], medians: "np.ndarray") -> str:
    place = int(np.argmax(medians))
    name = names[place].replace(NAMED, "")
    return (
        f"The highest median of its windows has {name} with {medians[place]:.2f}×; the middle"
        f" rank has {np.median(medians):.2f}×."
    )
