"""One chart with its numbers as a table and its meaning in words; escaping of its texts."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from lockstep.dashboard.palette import SILENT

LONGEST_NAME = 80
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escaped(raw: str, longest: int = LONGEST_NAME) -> str:
    """A text from outside as Plotly shows it letter by letter: in labels, hovers and names.

    Plotly reads `<b> <br> <i> <sub> <sup> <a href> <span style>` and entities as `&lt;` in every
    text, and sets `$…$` by MathJax where a page has it; what is no letter becomes a space.

    Args:
        raw: A name of a node, run or line; a text of an event.
        longest: Characters that are shown; the rest is an ellipsis.
    """
    short = raw if len(raw) <= longest else f"{raw[: longest - 1]}…"
    shown = "".join(letter if letter.isprintable() else " " for letter in short)
    text = "".join(_ENTITIES.get(letter, letter) for letter in shown)
    return text.replace("$", "＄") if text.count("$") > 1 else text


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart.

    Attributes:
        title: With the unit.
        figure: Plotly's figure as JSON types and arrays (`{"data": [...], "layout": {...}}`).
        table: The same numbers, as a table that can be read aloud and downloaded.
        text: What it shows, in one or two sentences with numbers; the text alternative.
        note: What a reader must know of it: sampling, what was left out; empty = nothing.
        help: What it tells, what is normal, what to do.
        query: Where the numbers come from.
    """

    title: str
    figure: dict[str, Any]
    table: pd.DataFrame
    text: str
    note: str = ""
    help: str = ""
    query: str = ""


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
