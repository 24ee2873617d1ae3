"""Under the sentence about a culprit: its node, the evidence, and how to take the node out."""

import streamlit as st

from lockstep.dashboard.address import Place
from lockstep.dashboard.widgets.links import to as link_to
from lockstep.dashboard.words import node_tables

EVIDENCE = "evidence"
"""Anchor of the evidence on the page of the straggler."""


def ways(place: Place, node: str, evidence: Place | None = None) -> None:
    """A row of links.

    Args:
        place: Where the reader is, or the place and the range of a finding.
        node: That is named; empty = none is.
        evidence: Where it is told; None = further down on this page.
    """
    with st.container(horizontal=True, vertical_alignment="center", key="ways"):
        if node:
            link_to(f"Open {node}", "node", place, node=node, rank=None)
        if evidence is None:
            st.markdown(f"[Evidence](#{EVIDENCE})")
        else:
            link_to("Evidence", "straggler", evidence)
        if node:
            with st.popover("Drain command", type="tertiary", icon=":material/logout:"):
                st.caption(node_tables.DRAIN_WORDS)
                st.code(node_tables.drain(node), language="bash")
