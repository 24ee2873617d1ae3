"""A sentence, a picture with its table twin, a table: each with its words and its download.

What pages draw with; each of them is a file beside this one.
"""

import hashlib
from typing import Any

import streamlit as st

from lockstep.dashboard.figures.picture import Picture
from lockstep.dashboard.palette import SEVERITY
from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.widgets.formats import formats
from lockstep.dashboard.widgets.later import later
from lockstep.dashboard.widgets.links import to as link_to
from lockstep.dashboard.widgets.tables import download, table
from lockstep.dashboard.widgets.words import plain
from lockstep.dashboard.words.columns import worded

__all__ = ["ICONS", "download", "link_to", "picture", "plain", "sentence", "table"]

GREY = """<style>
[class*="st-key-unknown-"] [data-testid="stAlertContainer"] {
    background-color: rgba(128, 132, 140, 0.14); color: inherit;
}
[class*="st-key-unknown-"] [data-testid="stAlertContainer"] * { color: inherit; }
</style>"""
"""Streamlit has no box for what is not known: neither news (blue) nor trouble, and never well."""
ICONS = {severity: shade.icon for severity, shade in SEVERITY.items()}


def sentence(text: str, severity: Severity) -> None:
    """The answer of a page, on top of it; plain text."""
    boxes = {
        Severity.OK: st.success,
        Severity.NOTE: st.info,
        Severity.WARNING: st.warning,
        Severity.CRITICAL: st.error,
    }
    if severity is not Severity.UNKNOWN:
        boxes[severity](plain(text), icon=ICONS[severity])
        return
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    with st.container(key=f"unknown-{mark}"):
        st.html(GREY)
        st.info(plain(text), icon=ICONS[severity])


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
