"""Where the reader is: cluster, node, GPU, rank, collective, each a link."""

import streamlit as st

from dashboard.address import Place
from dashboard.widgets import links

Crumb = tuple[str, str, dict[str, str | int | None]]
ON_THE_WAY = ("cluster", "node", "gpu", "collectives")


def draw(page: str, place: Place) -> None:
    """Draws the way to a page that is on the drill path."""
    if page not in ON_THE_WAY:
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for number, (label, target, changes) in enumerate(trail(place)):
            if number:
                st.text("›")
            links.to(label, target, place.but(**changes), icon="")


def trail(place: Place) -> list[Crumb]:
    """Label, page and changes of the place for each station, the outermost first."""
    nothing: dict[str, str | int | None] = {"node": "", "gpu": None, "rank": None, "op": ""}
    stations: list[Crumb] = [("Cluster", "cluster", nothing)]
    if place.node:
        stations.append((place.node, "node", {"gpu": None, "rank": None, "op": ""}))
    if place.gpu is not None:
        stations.append((f"GPU {place.gpu}", "gpu", {"op": ""}))
    if place.rank is not None:
        stations.append((f"rank {place.rank}", "gpu", {"op": ""}))
    if place.op:
        stations.append((place.op, "collectives", {}))
    return stations
