"""A part of a page that is drawn once somebody opens it: most are never opened, and each costs."""

from collections.abc import Callable

import streamlit as st


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
