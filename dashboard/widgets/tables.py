"""A table: sortable, a page at a time, to download as CSV."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from lockstep.dashboard.widgets.words import plain

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
