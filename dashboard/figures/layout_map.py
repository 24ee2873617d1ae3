"""Workers by replica and pipeline stage, coloured by what each alone costs the run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lockstep.dashboard.figures.colours import rising
from lockstep.dashboard.figures.picture import Picture, nothing
from lockstep.dashboard.palette import DARK_BACKGROUND, LIGHT_BACKGROUND

TITLE = "What each worker alone costs the run, simulated (S_w, ×)"
HELP = (
    "S_w is the smaller of two slowdowns: with only that replica as it was, and with only that"
    " stage as it was, everything else ideal (OSDI'25, equation 4). One bright cell: a bad worker."
    " A bright row: a stage that is heavier than the others, by design. All alike: uneven data, or"
    " nothing."
)
LOW, HIGH = 1.0, 1.5
"""Ends of the scale, so that noise is dark. SOURCE: the map of SMon (OSDI'25, figure 15)."""
CELLS_WITH_NUMBERS = 96
MARKED_AT_MOST = 200
FRAMES = ((DARK_BACKGROUND, 6), (LIGHT_BACKGROUND, 3))
"""White within dark: seen on every colour of the scale. Colour and pixels."""


def layout_map(what_if: Mapping[str, Any], named: Sequence[tuple[int, int]] = ()) -> Picture:
    """A map of S_w.

    Args:
        what_if: Of a verdict; `S_w` is a list of replicas, each a list of stages.
        named: (dp, pp) of the workers that the verdict accuses; they carry a frame.
    """
    cells = _cells(what_if.get("S_w"))
    if cells is None:
        return nothing(TITLE, "What single workers cost needs the operations of the run.", HELP)
    replicas, stages = cells.shape
    rows = [f"stage {stage}" for stage in range(stages)]
    columns = [f"dp {replica}" for replica in range(replicas)]
    values = np.round(cells.T, 4)
    shown: dict[str, Any] = {
        "type": "heatmap", "z": values.tolist(), "x": columns, "y": rows, "xgap": 1, "ygap": 1,
        **rising(values, LOW, max(HIGH, float(np.nanmax(values)))),
        "colorbar": {"thickness": 12, "nticks": 5, "ticksuffix": "×"},
        "hovertemplate": "%{x}, %{y}: %{z:.3f}×<extra></extra>",
    }  # fmt: skip
    if cells.size <= CELLS_WITH_NUMBERS:
        shown["texttemplate"] = "%{z:.2f}"
    data = [shown]
    inside = [(dp, pp) for dp, pp in named if dp < replicas and pp < stages][:MARKED_AT_MOST]
    if inside:
        data += [
            {"type": "scatter", "mode": "markers", "name": "named by the verdict",
             "x": [columns[dp] for dp, _ in inside], "y": [rows[pp] for _, pp in inside],
             "marker": {"symbol": "square-open", "size": 26, "color": colour,
                        "line": {"width": width}},
             "hoverinfo": "skip", "showlegend": False}
            for colour, width in FRAMES
        ]  # fmt: skip
    layout = {
        "height": 170 + 34 * min(stages, 12),
        "margin": {"l": 8, "r": 8, "t": 32, "b": 48},
        "xaxis": {"title": {"text": "data-parallel replica"}, "type": "category"},
        "yaxis": {"title": {"text": "pipeline stage"}, "type": "category", "automargin": True},
    }
    table = pd.DataFrame(
        [
            (dp, pp, float(cells[dp, pp]), "yes" if (dp, pp) in set(inside) else "no")
            for dp in range(replicas)
            for pp in range(stages)
        ],
        columns=["dp", "pp", "S_w", "named"],
    ).sort_values("S_w", ascending=False, kind="stable")
    dp, pp = divmod(int(np.nanargmax(cells)), stages)
    text = (
        f"The worker that costs most is replica {dp}, stage {pp} with {cells[dp, pp]:.2f}×; the"
        f" middle of {cells.size:,} workers has {np.nanmedian(cells):.2f}×."
    )
    note = "A frame marks what the verdict names." if inside else ""
    return Picture(TITLE, {"data": data, "layout": layout}, table, text, note, HELP)


def _cells(value: Any) -> "np.ndarray | None":
    """(D, P), or None where it is no table of numbers."""
    try:
        cells = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return cells if cells.ndim == 2 and cells.size and np.isfinite(cells).any() else None
