"""The picture of a chart that nobody told anything of: it says so instead of being blank."""

import pandas as pd

from lockstep.dashboard.figures.picture import Picture
from lockstep.dashboard.palette import SILENT


def nothing(title: str, text: str, meaning: str = "") -> Picture:
    """An empty chart with a sentence in it.

    Args:
        title: That the chart would have.
        text: Why it is empty, and what would fill it. Our words: nothing from outside.
        meaning: Picture.help.
    """
    hidden = {"visible": False, "fixedrange": True}
    layout = {
        "height": 120,
        "margin": {"l": 0, "r": 0, "t": 8, "b": 8},
        "xaxis": hidden,
        "yaxis": hidden,
        "annotations": [
            {"text": text, "x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper", "showarrow": False}
        ],
    }
    # Plotly refuses a figure without a trace.
    data = [{"type": "scatter", "x": [None], "y": [None], "showlegend": False,
             "marker": {"color": SILENT}}]  # fmt: skip
    return Picture(title, {"data": data, "layout": layout}, pd.DataFrame(), text, help=meaning)
