"""Node: what is wrong with this node?"""

from collections.abc import Sequence

import streamlit as st

from lockstep.dashboard.context import Context
from lockstep.dashboard.figures import lines
from lockstep.dashboard.shapes import Event, Lines, NodeFacts
from lockstep.dashboard.sources.chart_table import BESIDE_PEERS
from lockstep.dashboard.widgets.parts import part
from lockstep.dashboard.widgets.shown import link_to, picture, plain, sentence, table
from lockstep.dashboard.words import findings, node_tables, places
from lockstep.dashboard.words.columns import worded

EVENTS_AT_MOST = 500
FINDINGS_AT_MOST = 200


def show(context: Context) -> None:
    """Draws the page."""
    source, node, span = context.source, context.place.node, context.span
    facts = source.node(node, span)
    found = [one for one in source.findings(span, context.place.run) if one.node == node]
    said = places.node(facts, found)
    sentence(said.text, said.severity)
    _ways(context, facts)
    left, right = st.columns([3, 2])
    with left:
        st.subheader("What was looked at", anchor=False)
        if facts.checks:
            table(node_tables.checks(facts.checks), "checks", "Every check, the worst first.")
        else:
            st.caption("Nothing was looked at on this node in this range.")
    with right:
        st.subheader("Who it is", anchor=False)
        table(node_tables.facts(facts.facts), "facts", "What is known of the node.")
    _gpus(context, facts)
    told = part(lambda: source.events(span, context.place.run, node)) or ()
    charts = part(lambda: source.node_lines(node, span)) or ()
    _charts(context, charts, told)
    _happened(context, told)
    st.subheader("Findings", anchor=False)
    if found:
        rows = {row.run: row for row in source.runs(span)}
        frame = findings.findings(findings.worst_first(found)[:FINDINGS_AT_MOST], rows)
        table(frame, "findings", "Findings about this node.", links=findings.FINDING_LINKS)
    else:
        st.caption("No finding about this node is known in this range.")
    with st.expander("Take it out of service"):
        st.caption(node_tables.DRAIN_WORDS)
        st.code(node_tables.drain(node), language="bash")


def _ways(context: Context, facts: NodeFacts) -> None:
    """To its GPUs, its runs and to Grafana."""
    with st.container(horizontal=True, vertical_alignment="center"):
        for gpu, rank, run in node_tables.gpu_places(facts):
            label = f"GPU {gpu}" if gpu is not None else ""
            label += f"{', ' if label else ''}rank {rank}" if rank is not None else ""
            there = node_tables.gpu_place(context.place, facts.node, gpu, rank, run)
            link_to(label, "gpu", there)
        for run in facts.runs[:3]:
            link_to(f"Run {run}", "run", context.place, run=run, gpu=None, rank=None)
        address = node_tables.grafana(context.settings.grafana, facts.node, context.span)
        if address:
            st.link_button("Grafana", address, icon=":material/open_in_new:", type="tertiary")


def _gpus(context: Context, facts: NodeFacts) -> None:
    if facts.gpus.empty:
        return
    st.subheader("Its GPUs and ranks", anchor=False)
    frame = node_tables.gpus(facts, context.place)
    table(
        worded(frame), "gpus", "GPUs of the node and who runs there.", links=(node_tables.GPU_LINK,)
    )


def _charts(context: Context, charts: Sequence[Lines], told: Sequence[Event]) -> None:
    kind = context.place.axis or "time"
    for key, title, some in (
        ("gpus", "Its GPUs beside their peers", [one for one in charts if one.key in BESIDE_PEERS]),
        ("host", "The host", [one for one in charts if one.key not in BESIDE_PEERS]),
    ):
        if some:
            picture(lines.stack(some, told, context.span, kind, title=title), f"node-{key}")


def _happened(context: Context, told: Sequence[Event]) -> None:
    st.subheader("Events", anchor=False)
    if not told:
        st.caption("No event on this node was told in this range.")
        return
    table(findings.events(told[-EVENTS_AT_MOST:][::-1]), "events", "The newest events first.")
    if len(told) > EVENTS_AT_MOST:
        left = len(told) - EVENTS_AT_MOST
        st.caption(plain(f"{left:,} earlier ones are not shown; choose a shorter range."))
