"""One chart with what stands beside it: its numbers as a table, and its meaning in words."""

from dataclasses import dataclass
from typing import Any

import pandas as pd


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
