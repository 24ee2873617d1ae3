"""GPU/rank: what did this GPU do around that time?"""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from lockstep.dashboard.address import link, utc
from lockstep.dashboard.context import Context
from lockstep.dashboard.figures import gantt, heatmap, lines
from lockstep.dashboard.shapes import FLEET_METRICS, Event, FindingRow, Severity, Span
from lockstep.dashboard.trouble import Kind, TroubleError
from lockstep.dashboard.widgets.parts import part
from lockstep.dashboard.widgets.shown import link_to, picture, plain, sentence, table
from lockstep.dashboard.words import findings, operation_tables, places

LINKED = 6
"""Collectives that have a link of their own above the table."""
EVENTS_AT_MOST = 200
MOST_CHOICES = 500
"""GPUs to choose from in a table; the map has all."""


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


def show(context: Context) -> None:
    """Draws the page."""
    source, span, run = context.source, context.span, context.place.run
    if context.place.gpu is None and context.place.rank is None:
        _ask(context)
        return
    ranks = part(lambda: source.ranks(run, span)) if run else None
    here = where(context, ranks)
    told = [one for one in source.events(span, run, here.node) if _concerns(one, here)]
    found = [one for one in source.findings(span, run) if _concerns(one, here)]
    slowdown = float(here.row["slowdown"]) if here.row is not None else None
    known = slowdown if slowdown is not None and slowdown == slowdown else None
    said = places.gpu(here.name, found, known, len(told))
    sentence(said.text, said.severity)
    with st.container(horizontal=True):
        link_to(f"Node {here.node}", "node", context.place, node=here.node, gpu=None, rank=None)
        if run:
            link_to(f"Run {run}", "run", context.place)
            link_to("Why somebody is slow", "straggler", context.place)
    if run and here.rank is not None:
        _operations(context, here, found)
    _hardware(context, here, told)
    st.subheader("Events", anchor=False)
    if told:
        shown = told[-EVENTS_AT_MOST:][::-1]
        table(findings.events(shown), "events", "The newest events first.")
    else:
        st.caption("No event was told here in this range.")


def _ask(context: Context) -> None:
    """Which one: those of the run or node of the address, the slowest first."""
    fleet = context.source.fleet(FLEET_METRICS[0])
    frame = heatmap.ranked(fleet)
    for word in ("run", "node"):
        wanted = getattr(context.place, word)
        frame = frame[frame[word] == wanted] if wanted else frame
    if frame.empty:
        raise TroubleError(
            Kind.EMPTY, "There is no GPU or rank here.", "Open the cluster, or choose another run."
        )
    sentence("Which GPU or rank? Open one; the slowest come first.", Severity.NOTE)
    frame = frame.head(MOST_CHOICES)
    frame["open"] = [
        link("gpu", context.place, node=node, gpu=_whole(gpu), rank=_whole(rank), run=run)
        for node, gpu, rank, run in zip(
            frame["node"], frame["gpu"], frame["rank"], frame["run"], strict=True
        )
    ]
    table(frame, "choose-gpu", "GPUs and ranks with a link each.", links=("open",))
    link_to("The map of all of them", "cluster", context.place)


def where(context: Context, ranks: pd.DataFrame | None) -> Where:
    """Whom the address is about.

    Raises:
        TroubleError: It names nobody, or a rank that the run does not have.
    """
    place = context.place
    rows = ranks if ranks is not None else pd.DataFrame()
    if len(rows) and place.rank is not None:
        rows = rows[rows["rank"] == place.rank]
        if rows.empty:
            raise TroubleError(
                Kind.UNKNOWN_ID,
                f"Run {place.run} has no rank {place.rank}.",
                "Open the cluster and choose a place there.",
            )
        if place.node and not (rows["node"] == place.node).any():
            rows = rows.iloc[:0]
    elif len(rows) and place.node:
        there = rows["node"] == place.node
        rows = rows[there & (rows["gpu"] == place.gpu)] if place.gpu is not None else rows.iloc[:0]
    else:
        rows = rows.iloc[:0]
    if len(rows):
        row = rows.iloc[0]
        gpu = place.gpu if place.gpu is not None else _whole(row["gpu"])
        return Where(str(row["node"]), gpu, _whole(row["rank"]), row)
    if place.node and (place.gpu is not None or place.rank is not None):
        return Where(place.node, place.gpu, place.rank, None)
    raise TroubleError(
        Kind.UNKNOWN_ID,
        "The address does not say which GPU or rank.",
        "Open the cluster or a node and choose a place there.",
    )


def _operations(context: Context, here: Where, found: Sequence[FindingRow]) -> None:
    source, run, rank = context.source, context.place.run, here.rank
    if rank is None:
        return
    wall = float(here.row["wall_seconds"]) if here.row is not None else float("nan")
    chosen = [one for one in found if one.finding == context.place.finding] or found
    since = chosen[0].since if chosen else None
    shown = operation_tables.window(context.span, wall, since)
    st.subheader("What it did", anchor=False)
    some = part(lambda: source.operations(run, rank, shown))
    if some is None:
        return
    if some.empty:  # a run begins before its first step, and may end long after its last one
        every = source.operations(run, rank, context.span)
        if len(every):
            shown = operation_tables.window(context.span, wall, float(every["start"].median()))
            some = source.operations(run, rank, shown)
    picture(gantt.gantt(some), "operations")
    st.caption(plain(
        f"From {utc(shown.start)}, {shown.seconds:.3g} s: "
        + ("a step before the finding begins." if since is not None else
           "the middle of the range; choose a shorter one to see another moment.")
    ))  # fmt: skip
    _collectives(context, rank, operation_tables.collectives(some), shown)
    st.download_button(
        "This moment of all ranks, for ui.perfetto.dev",
        data=lambda: source.trace(run, shown),
        file_name=f"rank-{rank}.perfetto.json.gz", mime="application/gzip",
        icon=":material/download:", on_click="ignore", key="perfetto",
    )  # fmt: skip


def _collectives(context: Context, rank: int, frame: pd.DataFrame, shown: Span) -> None:
    if frame.empty:  # a rank that stood still for that moment
        around = operation_tables.widened(context.span, shown)
        more = part(lambda: context.source.operations(context.place.run, rank, around))
        frame = frame if more is None else operation_tables.collectives(more)
    if frame.empty:
        st.caption("It took part in no collective here.")
        link_to("Collectives of this run", "collectives", context.place, rank=rank)
        return
    st.subheader("Its collectives", anchor=False)
    with st.container(horizontal=True):
        for op in list(dict.fromkeys(frame["op"]))[:LINKED]:
            link_to(str(op), "collectives", context.place, op=str(op), rank=rank)
    frame["collective"] = [
        link("collectives", context.place, op=str(op), rank=rank) for op in frame["op"]
    ]
    table(frame, "collectives", "Collectives of this rank.", links=("collective",))


def _hardware(context: Context, here: Where, told: Sequence[Event]) -> None:
    gpu = here.gpu
    if gpu is None:
        st.caption("This rank runs on no GPU; see the page of its node for the host.")
        return
    charts = part(lambda: context.source.gpu_lines(here.node, gpu, context.span))
    if charts is None:
        return
    st.subheader("Its hardware", anchor=False)
    shown = lines.stack(charts, told, context.span, context.place.axis or "time",
                        title=f"GPU {gpu} on one axis")  # fmt: skip
    picture(shown, "hardware")


def _concerns(one: Event | FindingRow, here: Where) -> bool:
    """Whether it is about this GPU or rank, or about the whole node."""
    if one.rank is not None and here.rank is not None:
        return one.rank == here.rank
    if one.gpu is not None and here.gpu is not None:
        return one.gpu == here.gpu and one.node == here.node
    return one.node == here.node and one.rank is None and one.gpu is None


def _whole(value: object) -> int | None:
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return None
    return number if number >= 0 else None
