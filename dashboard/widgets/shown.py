"""What pages draw with: a sentence, a picture with its table twin, a table, a row of numbers."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pandas as pd
import streamlit as st

from lockstep.analyzer.report.figures import UNKNOWN
from lockstep.dashboard.figures.picture import Picture
from lockstep.dashboard.palette import SEVERITY
from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.trouble import Kind, TroubleError
from lockstep.dashboard.widgets.markup import plain
from lockstep.dashboard.words.columns import measured, worded
from lockstep.dashboard.words.said import Number

T = TypeVar("T")
LEAVES_THE_PAGE = (Kind.EMPTY, Kind.NOT_TOLD, Kind.NOT_ANALYZED, Kind.UNREADABLE)
"""Troubles of one part; any other is that of the whole page."""


def part(ask: Callable[[], T]) -> T | None:
    """An answer; or None, and in its place the sentence and the next step.

    Raises:
        TroubleError: One that concerns the whole page.
    """
    try:
        return ask()
    except TroubleError as trouble:
        if trouble.kind not in LEAVES_THE_PAGE:
            raise
        st.caption(plain(f"{trouble.sentence} {trouble.next_step}"))
        return None


@st.fragment
def later(label: str, key: str, draw: Callable[[], None]) -> None:
    """Draws a closed box; opening it draws what is in it, and nothing else anew.

    Args:
        label: On the box; Markdown, so text from outside goes through `plain`.
        key: Unique on the page.
        draw: Draws the part from what was already asked for: nobody catches a trouble here.
    """
    box = st.expander(label, key=key, on_change="rerun")
    if box.open:
        with box:
            draw()


ROW_PIXELS = 35
MOST_PIXELS = 460


def table(
    frame: pd.DataFrame,
    key: str,
    text: str,
    *,
    columns: Mapping[str, Any] | None = None,
    links: Sequence[str] = (),
    rows: int = 50,
) -> None:
    """A table, sortable, to download as CSV.

    Args:
        frame: Its rows.
        key: Unique on the page, and the name of the file.
        text: What it shows, for those who cannot see it.
        columns: Streamlit's column configuration.
        links: Columns that hold links made by dashboard.address.link; shown as `open`, and last.
        rows: At most so many are shown at once; the others are a page away.
    """
    frame = links_last(frame, links)
    config: dict[str, Any] = {
        name: st.column_config.LinkColumn(name, display_text="open") for name in links
    }
    config |= dict(columns or {})
    count = len(frame)
    pages = max(1, math.ceil(count / rows))
    page = 1
    if pages > 1:
        page = st.pagination(pages, key=f"{key}-page")
    first = (page - 1) * rows
    part = frame.iloc[first : first + rows]
    height = min((len(part) + 1) * ROW_PIXELS + 3, MOST_PIXELS)
    st.dataframe(part, hide_index=True, column_config=config, alt=text, height=height, key=key,
                 placeholder="")  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="center"):
        download(frame, key)
        if pages > 1:
            st.caption(f"Rows {first + 1:,} to {first + len(part):,} of {count:,}.")


def links_last(frame: pd.DataFrame, links: Sequence[str]) -> pd.DataFrame:
    """The same rows with their links at the end: what is read comes before where it leads."""
    return frame[[*(name for name in frame if name not in links), *links]]


def wording(frame: pd.DataFrame, text: str) -> None:
    """A small table of words: every line is there to read, however narrow the window.

    Args:
        frame: Its rows.
        text: What it shows, for those who cannot see it.
    """
    st.table(frame.astype(str).map(plain), hide_index=True, alt=text)


def download(frame: pd.DataFrame, key: str, label: str = "CSV") -> None:
    """A button for all rows as CSV; the file is made when it is asked for."""
    st.download_button(
        label,
        data=lambda: frame.to_csv(index=False).encode(),
        file_name=f"{key}.csv",
        mime="text/csv",
        key=f"{key}-csv",
        icon=":material/download:",
        on_click="ignore",
        type="tertiary",
    )


def formats(frame: pd.DataFrame) -> dict[str, Any]:
    """Streamlit's column configuration of a frame with words for columns."""
    return {name: st.column_config.NumberColumn(format="%.4g") for name in measured(frame)}


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


NOT_KNOWN = "unknown"


def number_row(numbers: Sequence[Number], key: str) -> None:
    """Draws them beside each other; on a telephone two in a number_row.

    Args:
        numbers: At least one.
        key: Unique on the page.
    """
    with st.container(key=f"numbers-{key}"):
        for index, (column, each) in enumerate(zip(st.columns(len(numbers)), numbers, strict=True)):
            unknown = each.value in (UNKNOWN, "")
            name = f"number-{'unknown' if unknown else 'known'}-{key}-{index}"
            with column, st.container(key=name):
                st.metric(
                    plain(each.label), NOT_KNOWN if unknown else plain(each.value),
                    each.delta or None, delta_color="red" if each.bad else "off",
                    delta_arrow="off", help=plain(each.help) or None,
                )  # fmt: skip
