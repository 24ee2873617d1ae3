"""A part of a page that a source may not know: drawn, or a line in its place that says why not."""

from collections.abc import Callable
from typing import TypeVar

import streamlit as st

from lockstep.dashboard.trouble import Kind, TroubleError
from lockstep.dashboard.widgets.words import plain

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
