"""Runs: what ran, and how did it end?"""

import hashlib

import streamlit as st

from lockstep.dashboard.address import Place
from lockstep.dashboard.comparing.many import MOST
from lockstep.dashboard.context import Context
from lockstep.dashboard.shapes import RunRow
from lockstep.dashboard.widgets import picking, run_actions
from lockstep.dashboard.widgets.shown import link_to, plain, sentence
from lockstep.dashboard.words.run_table import ORDERS, STATES, STATUSES, Wish, frame, wished
from lockstep.dashboard.words.run_table import sentence as answer

PAIR = 2


def show(context: Context) -> None:
    """Draws the page."""
    every = context.source.runs()
    wish = Wish(*(picking.word(name) for name in ("q", "state", "verdict", "order")))
    found = wished(every, wish)
    text, severity = answer(every, found)
    sentence(text, severity)
    run_actions.waiting(context.settings.api)
    if not every:
        st.caption("Start one, then look again:")
        st.code("lockstep run gpt", language=None)
        return
    _filters()
    if not found:
        return
    st.caption(f"Tick a run to open it, two to {MOST} to compare them.")
    key = hashlib.sha256(repr(wish).encode()).hexdigest()[:8]
    ticked = picking.ticked(
        frame(found, context.place), f"runs-{key}", "Every run with its ending and its verdict.",
        links=("open", "report"),
    )  # fmt: skip
    rows = [found[row] for row in ticked]
    _links(rows)
    if len(rows) == 1:
        run_actions.draw(context.settings.api, rows[0].run)


def _filters() -> None:
    left, *others = st.columns([2, 1, 1, 1])
    with left:
        picking.text("Find", "q", "a name, a tag, a workload, a word of the verdict")
    for column, (label, name, options, unset) in zip(
        others,
        (
            ("State", "state", STATES, "any"),
            ("Verdict", "verdict", STATUSES, "any"),
            ("Order", "order", tuple(ORDERS)[1:], next(iter(ORDERS))),
        ),
        strict=True,
    ):
        with column:
            picking.choice(label, name, options, unset)


def _links(rows: list[RunRow]) -> None:
    """What can be done with the ticked runs."""
    if len(rows) > MOST:
        st.caption(f"{len(rows)} runs are ticked; up to {MOST} can be compared.")
        return
    # The oldest one is what the others are compared with.
    ordered = sorted(rows, key=lambda row: row.span.start)
    if len(rows) > PAIR:
        a, b, *more = (row.run for row in ordered)
        link_to(f"Compare these {len(rows)}", "compare", Place(a=a, b=b, more=",".join(more)))
        return
    with st.container(horizontal=True):
        for row in rows:
            link_to(f"Run {row.run}", "run", Place(run=row.run))
        if len(rows) == 1:
            link_to("Its report", "reports", Place(run=rows[0].run))
        if len(rows) == PAIR:
            older, newer = ordered
            link_to("Compare both", "compare", Place(a=older.run, b=newer.run))
    for row in rows:
        if row.sentence:
            st.caption(f"{plain(row.run)}: {plain(row.sentence)}")
