"""Choices, filters and ranges that stand in the address: Back undoes them, a link carries them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from lockstep.dashboard import address
from lockstep.dashboard.address import Location
from lockstep.dashboard.protocol import Source
from lockstep.dashboard.shapes import Span
from lockstep.dashboard.widgets.markup import plain
from lockstep.dashboard.widgets.shown import MOST_PIXELS, ROW_PIXELS, download, links_last


def choice(label: str, word: str, choices: Mapping[str, str], now: str) -> None:
    """Draws buttons, one of them pressed; pressing another one changes the address.

    Args:
        label: Over them.
        word: Of the address (address.Location).
        choices: Value in the address -> what the reader sees; the first one is the default and
            takes the word out of the address.
        now: Value that is shown.
    """
    key = f"choice-{word}"
    default = next(iter(choices))
    st.session_state[key] = now if now in choices else default

    def changed() -> None:
        chosen = st.session_state[key]
        if chosen and chosen != default:
            st.query_params[word] = chosen
        elif word in st.query_params:
            del st.query_params[word]

    st.segmented_control(
        label, list(choices), key=key, format_func=lambda value: plain(choices[value]),
        on_change=changed, required=True,
    )  # fmt: skip


# A table whose rows can be ticked, a page at a time, and filters that are in the address.

ROWS_SHOWN = 50
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


def pick(label: str, name: str, options: Sequence[str], unset: str) -> str:
    """A choice that is a word of the address; `unset` stands for none."""
    now = word(name) if word(name) in options else ""
    st.selectbox(
        label, ("", *options), format_func=lambda option: option or unset, **bound(name, now)
    )
    return now


def ticked(frame: pd.DataFrame, key: str, alt: str, links: Sequence[str]) -> list[int]:
    """Draws a table; the places in the frame of the rows that are ticked on the shown page."""
    frame = links_last(frame, links)
    pages = max(1, math.ceil(len(frame) / ROWS_SHOWN))
    page = int(st.pagination(pages, key=f"{key}-page") or 1) if pages > 1 else 1
    first = (page - 1) * ROWS_SHOWN
    part = frame.iloc[first : first + ROWS_SHOWN]
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


LIVE_SECONDS = 3600.0
"""Of a live source, so much is shown when neither a run nor a range is asked for."""


def span(source: Source, location: Location) -> Span:
    """The range of the address; without one that of the run, or of all there is.

    Raises:
        TroubleError: The run of the place is not known, or its range is none.
    """
    extent = source.run(location.run).span if location.run else source.extent()
    answer = source.answer(run=location.run)
    if source.live and not location.run and not location.since:
        extent = Span(max(extent.start, extent.end - LIVE_SECONDS), extent.end)
    # A recorded run has no now: `the last hour` is the last one of it.
    return address.span(location, extent, answer.now if answer.live else extent.end)
