"""A link to another page, without loading the dashboard anew."""

from collections.abc import Mapping

import streamlit as st

from lockstep.dashboard.address import Place, link
from lockstep.dashboard.widgets.words import plain

PAGES = "lockstep-pages"
"""In the session: Streamlit's page objects by their key, for links within the app."""
INTENTIONS = "lockstep-intentions"
"""In the session: what a reader wants who opens a page, by its key."""


def know(pages: Mapping[str, object], intentions: Mapping[str, str]) -> None:
    """Remembers the pages that there are, and what each is for, in this session."""
    st.session_state[PAGES] = dict(pages)
    st.session_state[INTENTIONS] = dict(intentions)


def intentions() -> dict[str, str]:
    """What a reader wants who opens a page, by its key; empty for a page alone, in a test."""
    return dict(st.session_state.get(INTENTIONS, {}))


def to(
    label: str,
    page: str,
    place: Place,
    *,
    icon: str | None = None,
    wide: bool = False,
    **changes: str | int | None,
) -> None:
    """Draws a link.

    Args:
        label: Plain text.
        page: Its key.
        place: Where it leads.
        icon: A Material symbol; None = that of the page.
        wide: Whether it takes the whole width.
        changes: Words of the place that are others there.
    """
    known = st.session_state.get(PAGES, {}).get(page)
    if known is None:  # a page alone, in a test
        st.markdown(f"[{plain(label)}]({link(page, place, **changes)})")
        return
    st.page_link(
        known,
        label=plain(label),
        icon=icon,
        width="stretch" if wide else "content",
        query_params=place.query(**changes),
        help="",
    )
