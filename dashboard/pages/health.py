"""Data health and help: can these numbers be trusted, and what do they mean?"""

import streamlit as st

from lockstep.dashboard.address import Location
from lockstep.dashboard.context import Context
from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.widgets import links
from lockstep.dashboard.widgets.choices import choice
from lockstep.dashboard.widgets.links import link_to
from lockstep.dashboard.widgets.markup import plain
from lockstep.dashboard.widgets.shown import sentence, table, wording
from lockstep.dashboard.words import helping
from lockstep.dashboard.words.columns import worded

VIEWS = {"": "Data health", "help": "Words and limits"}


def show(context: Context) -> None:
    """Draws the page."""
    choice("Show", "view", VIEWS, context.location.view)
    (_help if context.location.view == "help" else _trust)(context)


def _trust(context: Context) -> None:
    health = context.source.health(context.location.run)
    sentence(*helping.sentence(health))
    if health.checks:
        st.subheader("What was checked", anchor=False)
        if health.about:
            st.caption(plain(health.about))
        table(helping.checks(health), "checks", "Every check, its state and what to do.")
    else:
        st.markdown("See what this machine can report, and what is missing for the rest:")
        st.code("lockstep doctor", language=None)
    st.subheader("Where the numbers come from", anchor=False)
    if health.sources.empty:
        st.caption("The source names no pages, files or targets of its own.")
        return
    table(
        worded(health.sources), "sources", "Every page or file that is read, its age and its size."
    )


def _help(context: Context) -> None:
    """Words, formulas and limits, and which page answers what; it asks no source."""
    sentence(
        "A step is as slow as its slowest rank: this dashboard names that rank, its GPU and its"
        " node, says why, and what it costs.",
        Severity.NOTE,
    )
    st.subheader("If you want to …, open this page", anchor=False)
    location = Location(run=context.location.run, node=context.location.node)
    for key, intention in links.intentions().items():
        left, right = st.columns([3, 1], vertical_alignment="center")
        left.text(f"… {intention}")
        with right:
            link_to(key, key, location)
    for title, frame in (
        ("Words", helping.glossary()),
        ("How numbers are made", helping.formulas()),
        ("Limits in force", helping.thresholds()),
        ("Keyboard and mouse", helping.keys()),
        ("Exit codes of the commands", helping.exit_codes()),
    ):
        st.subheader(title, anchor=False)
        wording(frame, f"{title}, as a table.")
