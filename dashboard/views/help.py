"""Help: the words, the formulas, the limits, and which page answers what."""

import streamlit as st

from lockstep.dashboard.address import Place
from lockstep.dashboard.context import Context
from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.widgets import links
from lockstep.dashboard.widgets.shown import link_to, sentence
from lockstep.dashboard.widgets.tables import wording
from lockstep.dashboard.words import helping


def show(context: Context) -> None:
    """Draws the page."""
    sentence(
        "A step is as slow as its slowest rank: this dashboard names that rank, its GPU and its"
        " node, says why, and what it costs.",
        Severity.NOTE,
    )
    st.subheader("If you want to …, open this page", anchor=False)
    place = Place(run=context.place.run, node=context.place.node)
    for key, intention in links.intentions().items():
        left, right = st.columns([3, 1], vertical_alignment="center")
        left.text(f"… {intention}")
        with right:
            link_to(key, key, place)
    for title, frame in (
        ("Words", helping.glossary()),
        ("How numbers are made", helping.formulas()),
        ("Limits in force", helping.thresholds()),
        ("Keyboard and mouse", helping.keys()),
        ("Exit codes of the commands", helping.exit_codes()),
    ):
        st.subheader(title, anchor=False)
        wording(frame, f"{title}, as a table.")
