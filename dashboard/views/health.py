"""Data health: can these numbers be trusted?"""

import streamlit as st

from lockstep.dashboard.context import Context
from lockstep.dashboard.widgets.shown import plain, sentence, table
from lockstep.dashboard.words import trust
from lockstep.dashboard.words.columns import worded


def show(context: Context) -> None:
    """Draws the page."""
    health = context.source.health(context.place.run)
    sentence(*trust.sentence(health))
    if health.checks:
        st.subheader("What was checked", anchor=False)
        if health.about:
            st.caption(plain(health.about))
        table(trust.checks(health), "checks", "Every check, its state and what to do.")
    else:
        st.markdown("See what this machine can tell, and what is missing for the rest:")
        st.code("lockstep doctor", language=None)
    st.subheader("Where the numbers come from", anchor=False)
    if health.sources.empty:
        st.caption("The source names no pages, files or targets of its own.")
        return
    table(
        worded(health.sources), "sources", "Every page or file that is read, its age and its size."
    )
