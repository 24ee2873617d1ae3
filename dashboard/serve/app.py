"""The app: its pages, in order, and the addresses of before. `server.py` runs it at every look."""

import os
from collections.abc import Callable
from pathlib import Path

import streamlit as st

from lockstep.dashboard.context import Page, Settings
from lockstep.dashboard.pages.registry import MOVED, PAGES
from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.sources import opened
from lockstep.dashboard.widgets import frame, links, shown

# Comments and no docstrings below: Streamlit may draw a text that stands alone (its "magic").
# The icon is a file of ours: for a Material symbol the browser would ask a server of Google's.
ICON = Path(__file__).with_name("icon.svg")
SETTINGS_VARIABLE = "LOCKSTEP_DASHBOARD_SETTINGS"


def main() -> None:
    """Draws the page of the address."""
    st.set_page_config(page_title="Lockstep", page_icon=str(ICON), layout="wide")
    settings = Settings.read(os.environ.get(SETTINGS_VARIABLE, ""))
    if settings.login and not _logged_in():
        return
    home = next((page for page in PAGES if page.key == "now"), PAGES[0])
    pages = {
        page.key: st.Page(
            _drawing(page, settings), title=page.title, icon=page.icon, url_path=page.key,
            default=page is home,
        )
        for page in PAGES
    }  # fmt: skip
    links.know(pages, {page.key: page.intention for page in PAGES if page.intention})
    moved = [
        st.Page(_leading(before, pages[now], view), url_path=before, visibility="hidden")
        for before, (now, view) in MOVED.items()
        if now in pages
    ]
    st.navigation([*pages.values(), *moved], position="hidden").run()


def _drawing(page: Page, settings: Settings) -> Callable[[], None]:
    def draw() -> None:
        frame.draw(page, PAGES, lambda: opened.opened(os.environ), settings)

    draw.__name__ = page.key
    return draw


def _leading(before: str, page: st.Page, view: str) -> Callable[[], None]:
    """What a page of before does: it leads on, with all that its address says."""

    def lead() -> None:
        words = st.query_params.to_dict()
        st.switch_page(page, query_params=words | ({"view": view} if view else {}))

    lead.__name__ = before
    return lead


def _logged_in() -> bool:
    """Whether the reader is logged in; draws the button, and nothing else, where not."""
    if st.user.get("is_logged_in", False):
        with st.sidebar:
            st.button("Log out", on_click=st.logout, icon=":material/logout:", type="tertiary")
        return True
    st.title("Lockstep", anchor=False)
    shown.sentence("This dashboard is for people who are logged in.", Severity.NOTE)
    st.button("Log in", on_click=st.login, icon=":material/login:", type="primary")
    return False


main()
