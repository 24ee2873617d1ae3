"""A chart, with its note, and behind one click its numbers and where they come from."""

from typing import Any

import streamlit as st

from dashboard.figures.picture import Picture
from dashboard.widgets.formats import formats
from dashboard.widgets.later import later
from dashboard.widgets.tables import table
from dashboard.widgets.words import plain
from dashboard.words.columns import worded

CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "displayModeBar": True,
    "modeBarButtonsToRemove": ["lasso2d", "select2d", "autoScale2d"],
    "scrollZoom": False,
}
"""Plotly's bar: zoom, pan, back, and the picture as PNG."""


def picture(shown: Picture, key: str, *, select: bool = False) -> Any:
    """A chart, its note, and behind one click its numbers and where they come from.

    Args:
        shown: What to draw.
        key: Unique on the page.
        select: Whether clicks on markers are wanted.

    Returns:
        With `select`, the `customdata` of the marker that was clicked last; None otherwise.
    """
    st.markdown(f"**{plain(shown.title)}**", help=plain(shown.help) or None)
    config = {**CONFIG, "toImageButtonOptions": {"format": "png", "filename": key, "scale": 2}}
    chosen: Any = None
    if select:
        state = st.plotly_chart(
            shown.figure, key=key, on_select="rerun", selection_mode="points", config=config,
            alt=shown.text,
        )  # fmt: skip
        points = state["selection"]["points"]
        chosen = points[-1].get("customdata") if points else None
    else:
        st.plotly_chart(shown.figure, key=key, config=config, alt=shown.text)
    if shown.note:
        st.caption(plain(shown.note))
    later("Numbers and query", f"{key}-behind", lambda: _numbers(shown, key))
    return chosen


def _numbers(shown: Picture, key: str) -> None:
    st.text(shown.text)
    if shown.table.empty:
        st.caption("There are no numbers.")
    else:
        frame = worded(shown.table)
        table(frame, f"{key}-table", f"The numbers of: {shown.title}", rows=200,
              columns=formats(frame))  # fmt: skip
    if shown.query:
        st.code(shown.query, language=None, wrap_lines=True)
