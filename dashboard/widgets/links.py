"""Links to other pages, the ways from a culprit, and where the reader is."""

from collections.abc import Callable, Mapping

import pandas as pd
import streamlit as st

from lockstep.dashboard.address import Location, link
from lockstep.dashboard.trouble import TroubleError
from lockstep.dashboard.widgets.markup import plain
from lockstep.dashboard.words import places

PAGES = "lockstep-pages"
"""In the session: Streamlit's page objects by their key, for links within the app."""
INTENTIONS = "lockstep-intentions"
"""In the session: what a reader wants who opens a page, by its key."""


WITHIN = "lockstep-within"
"""In the session: key of the page that is shown, its query, and the queries that it links to."""


def entered(page: str, query: Mapping[str, str]) -> None:
    """Keeps the address where a link led to another view of the same page.

    Streamlit writes the address of a page link into the browser only where the page changes.
    """
    before, seen, targets = st.session_state.get(WITHIN, ("", {}, []))
    if page == before and query != seen and query in targets:
        st.query_params.from_dict(dict(query))
    st.session_state[WITHIN] = (page, dict(query), [])


def know(pages: Mapping[str, object], intentions: Mapping[str, str]) -> None:
    """Remembers the pages that there are, and what each is for, in this session."""
    st.session_state[PAGES] = dict(pages)
    st.session_state[INTENTIONS] = dict(intentions)


def intentions() -> dict[str, str]:
    """What a reader wants who opens a page, by its key; empty for a page alone, in a test."""
    return dict(st.session_state.get(INTENTIONS, {}))


def link_to(
    label: str,
    page: str,
    location: Location,
    *,
    icon: str | None = None,
    wide: bool = False,
    **changes: str | int | None,
) -> None:
    """Draws a link.

    Args:
        label: Plain text.
        page: Its key.
        location: Where it leads.
        icon: A Material symbol; None = that of the page.
        wide: Whether it takes the whole width.
        changes: Words of the place that are others there.
    """
    known = st.session_state.get(PAGES, {}).get(page)
    if known is None:  # a page alone, in a test
        st.markdown(f"[{plain(label)}]({link(page, location, **changes)})")
        return
    query = location.query(**{"view": "", **changes})
    shown, _, targets = st.session_state.get(WITHIN, ("", {}, []))
    if page == shown:
        targets.append(query)
    st.page_link(
        known,
        label=plain(label),
        icon=icon,
        width="stretch" if wide else "content",
        query_params=query,
        help="",
    )


# Under the sentence about a culprit: its node, the evidence, and how to take the node out.

EVIDENCE = "evidence"
"""Anchor of the evidence on the page of the straggler."""


def ways(location: Location, node: str, evidence: Location | None = None) -> None:
    """A row of links.

    Args:
        location: Where the reader is, or the place and the range of a finding.
        node: That is named; empty = none is.
        evidence: Where it is told; None = further down on this page.
    """
    with st.container(horizontal=True, vertical_alignment="center", key="ways"):
        if node:
            link_to(f"Open {node}", "node", location, node=node, gpu=None, rank=None)
        if evidence is None:
            st.markdown(f"[Evidence](#{EVIDENCE})")
        else:
            link_to("Evidence", "straggler", evidence)
        if node:
            with st.popover("Drain command", type="tertiary", icon=":material/logout:"):
                st.caption(places.DRAIN_WORDS)
                st.code(places.drain(node), language="bash")


# Where the reader is: cluster, node, GPU, rank, collective, each a link.

Crumb = tuple[str, str, dict[str, str | int | None]]
ON_THE_WAY = ("cluster", "node", "collectives")


def crumbs(page: str, location: Location) -> None:
    """Draws the way to a page that is on the drill path."""
    if page not in ON_THE_WAY:
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for number, (label, target, changes) in enumerate(trail(location, page)):
            if number:
                st.text("›")
            link_to(label, target, location.but(**changes), icon="")


def with_gpu(location: Location, ranks: Callable[[], pd.DataFrame]) -> Location:
    """The place with the GPU of its rank, where the address names only the rank.

    Args:
        location: As the address says.
        ranks: Source.ranks of its run; asked for only where it is needed.
    """
    if location.gpu is not None or location.rank is None or not (location.run and location.node):
        return location
    try:
        rows = ranks()
    except TroubleError:  # the page says it
        return location
    there = rows[rows["rank"] == location.rank] if len(rows) else rows
    gpu = int(there["gpu"].iloc[0]) if len(there) else -1
    return location.but(gpu=gpu) if gpu >= 0 else location


def trail(location: Location, page: str = "node") -> list[Crumb]:
    """Label, page and changes of the place for each station, the outermost first.

    Args:
        location: Where the reader looks.
        page: Key of the page; collectives are those of a run.
    """
    nothing: dict[str, str | int | None] = {"node": "", "gpu": None, "rank": None, "op": ""}
    stations: list[Crumb] = [("Cluster", "cluster", nothing)]
    if location.run and page == "collectives":
        stations.append((f"Run {location.run}", "run", nothing))
    if location.node:
        stations.append((location.node, "node", {"gpu": None, "rank": None, "op": ""}))
    if location.gpu is not None:
        stations.append((f"GPU {location.gpu}", "node", {"op": ""}))
    if location.rank is not None:
        stations.append((f"rank {location.rank}", "node", {"op": ""}))
    if location.op:
        stations.append((location.op, "collectives", {}))
    return stations
