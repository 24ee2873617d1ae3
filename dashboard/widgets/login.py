"""Who may look: Streamlit's own OpenID Connect login, where the dashboard was started with it."""

import streamlit as st

from dashboard.shapes import Severity
from dashboard.widgets import shown


def passed() -> bool:
    """Whether the reader is logged in; draws the button, and nothing else, where not."""
    if st.user.get("is_logged_in", False):
        with st.sidebar:
            st.button("Log out", on_click=st.logout, icon=":material/logout:", type="tertiary")
        return True
    st.title("Lockstep", anchor=False)
    shown.sentence("This dashboard is for people who are logged in.", Severity.NOTE)
    st.button("Log in", on_click=st.login, icon=":material/login:", type="primary")
    return False
