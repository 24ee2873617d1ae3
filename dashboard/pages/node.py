"""Node and GPU: what is wrong with this node, and what did one of its GPUs do?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from lockstep.dashboard.address import link, utc
from lockstep.dashboard.context import Context
from lockstep.dashboard.figures import lines, operations
from lockstep.dashboard.shapes import (
    Event,
    FindingRow,
    Lines,
    NodeFacts,
    Span,
)
from lockstep.dashboard.sources.chart_table import BESIDE_PEERS
from lockstep.dashboard.trouble import Kind, TroubleError
from lockstep.dashboard.widgets.frame import chosen
from lockstep.dashboard.widgets.links import link_to
from lockstep.dashboard.widgets.markup import plain
from lockstep.dashboard.widgets.shown import part, picture, sentence, table
from lockstep.dashboard.words import collectives, findings, places
from lockstep.dashboard.words.columns import worded

EVENTS_AT_MOST = 500
FINDINGS_AT_MOST = 200
LINKED = 6
"""Collectives that have a link of their own above the table."""
GPU_EVENTS_AT_MOST = 200


def show(context: Context) -> None:
    """Draws the page: of a GPU or rank where the address names one, else of a node."""
    if context.location.gpu is not None or context.location.rank is not None:
        _gpu_or_rank(context)
        return
    location = chosen("node", "node", context.source, context.location)
    if location is not None:
        _node(replace(context, location=location))


def _node(context: Context) -> None:
    source, node, span = context.source, context.location.node, context.span
    facts = source.node(node, span)
    findings_here = source.findings(span, context.location.run)
    mine = [finding for finding in findings_here if finding.node == node]
    said = places.node(facts, mine)
    sentence(said.text, said.severity)
    _ways(context, facts)
    left, right = st.columns([3, 2])
    with left:
        st.subheader("What was checked", anchor=False)
        if facts.checks:
            table(places.checks(facts.checks), "checks", "Every check, the worst first.")
        else:
            st.caption("Nothing was checked on this node in this range.")
    with right:
        st.subheader("Who it is", anchor=False)
        table(places.facts(facts.facts), "facts", "Facts about the node.")
    _gpus(context, facts)
    events = part(lambda: source.events(span, context.location.run, node)) or ()
    charts = part(lambda: source.node_lines(node, span)) or ()
    _charts(context, charts, events)
    _happened(context, events)
    st.subheader("Findings", anchor=False)
    if mine:
        rows = {row.run: row for row in source.runs(span)}
        frame = findings.findings(findings.worst_first(mine)[:FINDINGS_AT_MOST], rows)
        table(frame, "findings", "Findings about this node.", links=findings.FINDING_LINKS)
    else:
        st.caption("No finding about this node is known in this range.")
    with st.expander("Take it out of service"):
        st.caption(places.DRAIN_WORDS)
        st.code(places.drain(node), language="bash")


def _ways(context: Context, facts: NodeFacts) -> None:
    """To its GPUs, its runs and to Grafana."""
    with st.container(horizontal=True, vertical_alignment="center"):
        for gpu, rank, run in places.gpu_places(facts):
            label = f"GPU {gpu}" if gpu is not None else ""
            label += f"{', ' if label else ''}rank {rank}" if rank is not None else ""
            there = places.gpu_place(context.location, facts.node, gpu, rank, run)
            link_to(label, "node", there)
        for run in facts.runs[:3]:
            link_to(f"Run {run}", "run", context.location, run=run, gpu=None, rank=None)
        address = places.grafana(context.settings.grafana, facts.node, context.span)
        if address:
            st.link_button("Grafana", address, icon=":material/open_in_new:", type="tertiary")


def _gpus(context: Context, facts: NodeFacts) -> None:
    if facts.gpus.empty:
        return
    st.subheader("Its GPUs and ranks", anchor=False)
    frame = places.gpus(facts, context.location)
    table(worded(frame), "gpus", "GPUs of the node and who runs there.", links=(places.GPU_LINK,))


def _charts(context: Context, charts: Sequence[Lines], events: Sequence[Event]) -> None:
    kind = context.location.axis or "time"
    for key, title, some in (
        (
            "gpus",
            "Its GPUs beside their peers",
            [chart for chart in charts if chart.key in BESIDE_PEERS],
        ),
        ("host", "The host", [chart for chart in charts if chart.key not in BESIDE_PEERS]),
    ):
        if some:
            picture(lines.stack(some, events, context.span, kind, title=title), f"node-{key}")


def _happened(context: Context, events: Sequence[Event]) -> None:
    st.subheader("Events", anchor=False)
    if not events:
        st.caption("No event on this node was reported in this range.")
        return
    table(findings.events(events[-EVENTS_AT_MOST:][::-1]), "events", "The newest events first.")
    if len(events) > EVENTS_AT_MOST:
        left = len(events) - EVENTS_AT_MOST
        st.caption(plain(f"{left:,} earlier ones are not shown; choose a shorter range."))


@dataclass(frozen=True, slots=True)
class Where:
    """Which GPU and rank: the parts that the address leaves out are looked up.

    Attributes:
        row: Of Source.ranks; None = no rank of the run is there.
    """

    node: str
    gpu: int | None
    rank: int | None
    row: "pd.Series[float] | None"

    @property
    def name(self) -> str:
        """`node-3, GPU 1, rank 7`."""
        gpu = f"GPU {self.gpu}" if self.gpu is not None else ""
        rank = f"rank {self.rank}" if self.rank is not None else ""
        return ", ".join(part for part in (self.node, gpu, rank) if part)


def _gpu_or_rank(context: Context) -> None:
    """What one GPU did around a moment."""
    source, span, run = context.source, context.span, context.location.run
    ranks = part(lambda: source.ranks(run, span)) if run else None
    here = where(context, ranks)
    events = [event for event in source.events(span, run, here.node) if _concerns(event, here)]
    mine = [finding for finding in source.findings(span, run) if _concerns(finding, here)]
    slowdown = float(here.row["slowdown"]) if here.row is not None else None
    known = slowdown if slowdown is not None and slowdown == slowdown else None
    said = places.gpu(here.name, mine, known, len(events))
    sentence(said.text, said.severity)
    with st.container(horizontal=True):
        link_to(f"Node {here.node}", "node", context.location, node=here.node, gpu=None, rank=None)
        if run:
            link_to(f"Run {run}", "run", context.location)
            link_to("Why somebody is slow", "straggler", context.location)
    if run and here.rank is not None:
        _operations(context, here, mine)
    _hardware(context, here, events)
    st.subheader("Events", anchor=False)
    if events:
        shown = events[-GPU_EVENTS_AT_MOST:][::-1]
        table(findings.events(shown), "events", "The newest events first.")
    else:
        st.caption("No event was reported here in this range.")


def where(context: Context, ranks: pd.DataFrame | None) -> Where:
    """Whom the address is about.

    Raises:
        TroubleError: It names nobody, or a rank that the run does not have.
    """
    location = context.location
    rows = ranks if ranks is not None else pd.DataFrame()
    if len(rows) and location.rank is not None:
        rows = rows[rows["rank"] == location.rank]
        if rows.empty:
            raise TroubleError(
                Kind.UNKNOWN_ID,
                f"Run {location.run} has no rank {location.rank}.",
                "Open the cluster and choose a place there.",
            )
        if location.node and not (rows["node"] == location.node).any():
            rows = rows.iloc[:0]
    elif len(rows) and location.node:
        there = rows["node"] == location.node
        known = location.gpu is not None
        rows = rows[there & (rows["gpu"] == location.gpu)] if known else rows.iloc[:0]
    else:
        rows = rows.iloc[:0]
    if len(rows):
        row = rows.iloc[0]
        gpu = location.gpu if location.gpu is not None else _whole(row["gpu"])
        return Where(str(row["node"]), gpu, _whole(row["rank"]), row)
    if location.node and (location.gpu is not None or location.rank is not None):
        return Where(location.node, location.gpu, location.rank, None)
    raise TroubleError(
        Kind.UNKNOWN_ID,
        "The address does not say which GPU or rank.",
        "Open the cluster or a node and choose a place there.",
    )


def _operations(context: Context, here: Where, findings: Sequence[FindingRow]) -> None:
    source, run, rank = context.source, context.location.run, here.rank
    if rank is None:
        return
    wall = float(here.row["wall_seconds"]) if here.row is not None else float("nan")
    chosen = [
        finding for finding in findings if finding.finding == context.location.finding
    ] or findings
    since = chosen[0].since if chosen else None
    shown = collectives.window(context.span, wall, since)
    st.subheader("What it did", anchor=False)
    some = part(lambda: source.operations(run, rank, shown))
    if some is None:
        return
    if some.empty:  # a run begins before its first step, and may end long after its last one
        every = source.operations(run, rank, context.span)
        if len(every):
            shown = collectives.window(context.span, wall, float(every["start"].median()))
            some = source.operations(run, rank, shown)
    picture(operations.gantt(some), "operations")
    st.caption(plain(
        f"From {utc(shown.start)}, {shown.seconds:.3g} s: "
        + ("a step before the finding begins." if since is not None else
           "the middle of the range; choose a shorter one to see another moment.")
    ))  # fmt: skip
    _collectives(context, rank, collectives.collectives(some), shown)
    st.download_button(
        "This moment of all ranks, for ui.perfetto.dev",
        data=lambda: source.trace(run, shown),
        file_name=f"rank-{rank}.perfetto.json.gz", mime="application/gzip",
        icon=":material/download:", on_click="ignore", key="perfetto",
    )  # fmt: skip


def _collectives(context: Context, rank: int, frame: pd.DataFrame, shown: Span) -> None:
    if frame.empty:  # a rank that stood still for that moment
        around = collectives.widened(context.span, shown)
        more = part(lambda: context.source.operations(context.location.run, rank, around))
        frame = frame if more is None else collectives.collectives(more)
    if frame.empty:
        st.caption("It took part in no collective here.")
        link_to("Collectives of this run", "collectives", context.location, rank=rank)
        return
    st.subheader("Its collectives", anchor=False)
    with st.container(horizontal=True):
        for op in list(dict.fromkeys(frame["op"]))[:LINKED]:
            link_to(str(op), "collectives", context.location, op=str(op), rank=rank)
    frame["collective"] = [
        link("collectives", context.location, op=str(op), rank=rank) for op in frame["op"]
    ]
    table(frame, "collectives", "Collectives of this rank.", links=("collective",))


def _hardware(context: Context, here: Where, events: Sequence[Event]) -> None:
    gpu = here.gpu
    if gpu is None:
        st.caption("This rank runs on no GPU; see the page of its node for the host.")
        return
    charts = part(lambda: context.source.gpu_lines(here.node, gpu, context.span))
    if charts is None:
        return
    st.subheader("Its hardware", anchor=False)
    shown = lines.stack(charts, events, context.span, context.location.axis or "time",
                        title=f"GPU {gpu} on one axis")  # fmt: skip
    picture(shown, "hardware")


def _concerns(row: Event | FindingRow, here: Where) -> bool:
    """Whether it is about this GPU or rank, or about the whole node."""
    if row.rank is not None and here.rank is not None:
        return row.rank == here.rank
    if row.gpu is not None and here.gpu is not None:
        return row.gpu == here.gpu and row.node == here.node
    return row.node == here.node and row.rank is None and row.gpu is None


def _whole(value: object) -> int | None:
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return None
    return number if number >= 0 else None
