"""Collectives: is communication the limit?"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from lockstep.dashboard.address import link
from lockstep.dashboard.context import Context
from lockstep.dashboard.figures import matrix, operations
from lockstep.dashboard.widgets.links import link_to
from lockstep.dashboard.widgets.markup import plain
from lockstep.dashboard.widgets.shown import formats, part, picture, sentence, table
from lockstep.dashboard.words import collectives
from lockstep.dashboard.words.collectives import waits
from lockstep.dashboard.words.columns import worded

ARRIVALS_MEANING = (
    "How long after the first rank each one arrived at its collectives, middle of each window. A"
    " row that stays bright is the rank the others wait for. Clocks of nodes differ by a little:"
    " less than the clock error in Data health says nothing."
)
WINDOWS = (
    "Windows say how long each rank waits, and no more: sizes, bandwidths and arrivals need the"
    " operations themselves. Archives of lockstep run hold them; of a live run lockstep watch"
    " fetches them when it finds something."
)
CONFIDENCE = st.column_config.NumberColumn(format="%.2f")
PERCENT = st.column_config.NumberColumn(format="percent")
MOMENT = st.column_config.DatetimeColumn(
    "start (UTC)", format="YYYY-MM-DD HH:mm:ss.SSS", timezone="UTC"
)
BYTES = st.column_config.NumberColumn(format="bytes")
FORMATS = {"size": BYTES, "bus bandwidth (per s)": BYTES}
WAITING = ("rank", "node", "gpu", "wall_seconds", "own_seconds", "wait_share")


def show(context: Context) -> None:
    """Draws the page."""
    source, run, span = context.source, context.location.run, context.span
    verdict = source.verdict(run)
    head = st.container()
    frame = part(lambda: source.collectives(run, span))
    late = None
    if frame is not None and len(frame):
        _operations(context, frame)
        late = _arrivals(context)
    ranks = part(lambda: source.ranks(run, span))
    if frame is None or frame.empty:
        st.info(WINDOWS)
    if ranks is not None and len(ranks):
        _waiting(ranks)
    _links(verdict)
    if context.location.rank is not None:
        _of_rank(context, context.location.rank)
    with head:
        said = collectives.headline(waits(ranks), verdict, late)
        sentence(said.text, said.severity)


def _waiting(ranks: pd.DataFrame) -> None:
    st.subheader("How long each rank waits", anchor=False)
    shown = ranks[[name for name in WAITING if name in ranks]]
    shown = worded(shown.sort_values("wait_share", kind="stable"))
    table(shown, "waiting",
          "Every rank, the shortest wait first: the others wait for that rank. Medians of the"
          " range.", columns=formats(shown) | {"in collectives": PERCENT})  # fmt: skip


def _operations(context: Context, frame: pd.DataFrame) -> None:
    chosen = context.location.op
    left, right = st.columns(2)
    with left:
        picture(operations.shares(frame, chosen), "shares")
    with right:
        picture(operations.busbw(frame, chosen), "busbw")
    if chosen:
        link_to("All operations", "collectives", context.location, op="")
        if not (frame["op"] == chosen).any():
            st.caption(plain(f"No operation of this run is called {chosen}."))
    rows = frame[frame["op"] == chosen] if chosen else frame
    look = [link("collectives", context.location, op=str(op)) for op in rows["op"]]
    st.subheader("Every operation, group and size", anchor=False)
    shown = worded(rows)
    shown.insert(0, "only this", look)
    table(shown, "collectives", "Operations, the largest sum first.",
          columns=formats(shown) | FORMATS, links=("only this",))  # fmt: skip


def _arrivals(context: Context) -> pd.DataFrame | None:
    arrivals = part(lambda: context.source.arrivals(context.location.run, context.span))
    if arrivals is None:
        return None
    st.subheader("Who arrives late", anchor=False)
    axis = context.location.axis or "time"
    picture(matrix.matrix(arrivals, axis=axis, meaning=ARRIVALS_MEANING), "arrivals")
    late = collectives.latest(arrivals)
    if len(late):
        table(late, "late", "Ranks, those most often last first.",
              columns=formats(late) | {collectives.LATE[2]: PERCENT})  # fmt: skip
    return late


def _links(verdict: Mapping[str, Any] | None) -> None:
    st.subheader("Slow links", anchor=False)
    links = collectives.slow_links(verdict)
    if len(links):
        table(links, "links", "Links and nodes whose network the verdict names.",
              columns=dict.fromkeys(collectives.SURE, CONFIDENCE))  # fmt: skip
    elif verdict is None:
        st.caption("The run was not analyzed, so no link is judged.")
    else:
        st.caption("The verdict names no link, leaf or rack.")


def _of_rank(context: Context, rank: int) -> None:
    st.subheader(f"Operations of rank {rank}", anchor=False)
    operations = part(lambda: context.source.operations(context.location.run, rank, context.span))
    if operations is None:
        return
    if context.location.op:
        operations = operations[operations["op"] == context.location.op]
    operations = worded(
        operations.assign(start=pd.to_datetime(operations["start"], unit="s", utc=True))
    )
    table(operations, "operations", f"Operations of rank {rank} in the order of time.",
          columns=formats(operations) | {"start": MOMENT, "size": BYTES})  # fmt: skip
