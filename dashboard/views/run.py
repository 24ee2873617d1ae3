"""Run: does it converge, how fast, and what does the hardware cost it?"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from lockstep.dashboard.address import Place, link
from lockstep.dashboard.context import Context
from lockstep.dashboard.figures import lane, lines
from lockstep.dashboard.figures.charts import Other
from lockstep.dashboard.shapes import Event, Lines, RunRow
from lockstep.dashboard.widgets import number_row
from lockstep.dashboard.widgets.choices import choice
from lockstep.dashboard.widgets.later import later
from lockstep.dashboard.widgets.parts import part
from lockstep.dashboard.widgets.picking import choice as pick
from lockstep.dashboard.widgets.run_notes import run_notes
from lockstep.dashboard.widgets.shown import link_to, picture, plain, sentence, table
from lockstep.dashboard.widgets.words import capital
from lockstep.dashboard.words import run_page, verdict

AXES = {"": "time (UTC)", "step": "step", "relative": "since the start"}
SLOWEST = 5
RUNS_AT_MOST = 200
"""Newest runs that can be laid under this one."""
BEFORE, AFTER = 60.0, 120.0
"""Seconds around an event that its link shows."""
PERCENT = st.column_config.NumberColumn(format="percent")
MILLISECONDS = 1000.0


def show(context: Context) -> None:
    """Draws the page."""
    source, run = context.source, context.place.run
    row, told = source.run(run), source.verdict(run)
    said = verdict.headline(told, row, live=context.answer.live)
    sentence(said.text, said.severity)
    if said.command:
        st.code(said.command, language="bash")
    if row.command:
        st.caption(plain(f"Started by: {row.command}"))
    gain, method = run_page.gain(told)
    if gain:
        st.markdown(f"**{plain(gain)}**")
    if method:
        st.caption(plain(method))
    run_notes(source.folder(run), context.settings)
    charts = source.run_lines(run, context.span)
    number_row.row(run_page.numbers(row, told, charts), "run")
    events = part(lambda: source.events(context.span, run)) or ()
    _stack(context, charts, events)
    _slowest(context)
    _events(context, events)
    with st.container(horizontal=True):
        link_to("Who is late, and why", "straggler", context.place)
        link_to("Collectives", "collectives", context.place)
        link_to("Report", "reports", context.place)
        link_to("Compare with another run", "compare", context.place, a=context.place.b, b=run)


def _stack(context: Context, charts: Sequence[Lines], events: Sequence[Event]) -> None:
    place = context.place
    left, right = st.columns(2)
    with left:
        choice("x axis", "axis", AXES, place.axis)
    with right:
        others = [row.run for row in context.source.runs()[:RUNS_AT_MOST] if row.run != place.run]
        if place.b and place.b not in (*others, place.run):
            others.append(place.b)
        chosen = pick("Baseline, dashed", "b", others, "none") if others else ""
    other = part(lambda: _other(context, chosen)) if chosen else None
    picture(
        lines.stack(charts, events, context.span, place.axis or "time", other), "model-and-node"
    )


def _other(context: Context, run: str) -> Other:
    row: RunRow = context.source.run(run)
    return Other(context.source.run_lines(run, row.span), "baseline", row.span.start)


def _slowest(context: Context) -> None:
    ranks = part(lambda: context.source.ranks(context.place.run, context.span))
    if ranks is None or ranks.empty:
        return
    st.subheader("Slowest ranks, medians of the range", anchor=False)
    few = ranks.head(SLOWEST)
    frame = pd.DataFrame(
        {
            "open": [_to_rank(context.place, row) for row in few.to_dict("records")],
            "rank": few["rank"],
            "node": few["node"],
            "GPU": few["gpu"],
            "own time over its stage (×)": few["slowdown"].round(3),
            "own time per step (ms)": (few["own_seconds"] * MILLISECONDS).round(2),
            "waits": few["wait_share"],
        }
    )
    if note := ranks.attrs.get("note"):
        st.caption(plain(capital(f"{note}.")))
    table(frame, "slowest-ranks", f"The {len(frame)} ranks that need the longest for their own"
          " work, the slowest first.", columns={"waits": PERCENT}, links=("open",))  # fmt: skip


def _to_rank(place: Place, row: dict[Any, Any]) -> str:
    gpu = row["gpu"]
    if pd.isna(gpu) or int(gpu) < 0:
        return link("straggler", place, rank=int(row["rank"]))
    return link("gpu", place, node=str(row["node"]), gpu=int(gpu), rank=int(row["rank"]))


def _events(context: Context, events: Sequence[Event]) -> None:
    if not events:
        st.caption("No event was told in this range: no XID, no throttling, no link event,"
                   " no checkpoint, no finding.")  # fmt: skip
        return
    # The chart has a lane of them; the table is for who wants to go to one.
    later(f"Events in this range: {len(events):,}", "events-open",
          lambda: _event_table(context, events))  # fmt: skip


def _event_table(context: Context, events: Sequence[Event]) -> None:
    frame = lane.table(events)
    frame.insert(0, "open", [_to_event(context.place, event) for event in events])
    table(frame, "events", "Everything that happened in this range, in the order of time.",
          links=("open",))  # fmt: skip


def _to_event(place: Place, event: Event) -> str:
    around = {
        "since": str(int((event.at - BEFORE) * MILLISECONDS)),
        "until": str(int(((event.until or event.at) + AFTER) * MILLISECONDS)),
    }
    if event.node and event.gpu is not None:
        return link("gpu", place, node=event.node, gpu=event.gpu, rank=event.rank, **around)
    if event.node:
        return link("node", place, node=event.node, **around)
    return link("straggler" if event.kind == "finding" else "run", place, **around)
