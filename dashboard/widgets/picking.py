"""A table whose rows can be ticked, a page at a time, and filters that are in the address."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from lockstep.dashboard.widgets.tables import MOST_PIXELS, ROW_PIXELS, download, links_last

ROWS = 50
LONGEST_WORD = 100


def word(name: str) -> str:
    """A word of the address; empty where it is absent."""
    return str(st.query_params.get(name, ""))[:LONGEST_WORD]


def text(label: str, name: str, placeholder: str) -> str:
    """A field whose text is a word of the address."""
    st.text_input(
        label, placeholder=placeholder, max_chars=LONGEST_WORD, type="search",
        **bound(name, word(name)),
    )  # fmt: skip
    return word(name)


def choice(label: str, name: str, options: Sequence[str], unset: str) -> str:
    """A choice that is a word of the address; `unset` stands for none."""
    now = word(name) if word(name) in options else ""
    st.selectbox(
        label, ("", *options), format_func=lambda option: option or unset, **bound(name, now)
    )
    return now


def ticked(frame: pd.DataFrame, key: str, alt: str, links: Sequence[str]) -> list[int]:
    """Draws a table; the places in the frame of the rows that are ticked on the shown page."""
    frame = links_last(frame, links)
    pages = max(1, math.ceil(len(frame) / ROWS))
    page = int(st.pagination(pages, key=f"{key}-page") or 1) if pages > 1 else 1
    first = (page - 1) * ROWS
    part = frame.iloc[first : first + ROWS]
    config = {name: st.column_config.LinkColumn(name, display_text="open") for name in links}
    state = st.dataframe(
        part, hide_index=True, column_config=config, alt=alt, on_select="rerun",
        selection_mode="multi-row", key=f"{key}-{page}", placeholder="",
        height=min((len(part) + 1) * ROW_PIXELS + 3, MOST_PIXELS),
    )  # fmt: skip
    if pages > 1:
        st.caption(f"Rows {first + 1:,} to {first + len(part):,} of {len(frame):,}.")
    download(frame, key)
    chosen = state["selection"]["rows"]
    return [first + row for row in chosen if row < len(part)]


def bound(name: str, value: str) -> dict[str, Any]:
    """What makes a widget a word of the address: Back and deep links set it.

    Args:
        name: Of the word.
        value: That the address says now, as the widget knows it.
    """
    key = f"pick-{name}"
    st.session_state[key] = value
    return {"key": key, "on_change": _say, "args": (name, key)}


def _say(name: str, key: str) -> None:
    value = str(st.session_state[key] or "")
    if value:
        st.query_params[name] = value
    elif name in st.query_params:
        del st.query_params[name]
