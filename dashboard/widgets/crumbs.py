"""Where the reader is: cluster, node, GPU, rank, collective, each a link."""

from collections.abc import Callable

import pandas as pd
import streamlit as st

from lockstep.dashboard.address import Place
from lockstep.dashboard.trouble import TroubleError
from lockstep.dashboard.widgets import links

Crumb = tuple[str, str, dict[str, str | int | None]]
ON_THE_WAY = ("cluster", "node", "gpu", "collectives")


def draw(page: str, place: Place) -> None:
    """Draws the way to a page that is on the drill path."""
    if page not in ON_THE_WAY:
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for number, (label, target, changes) in enumerate(trail(place, page)):
            if number:
                st.text("›")
            links.to(label, target, place.but(**changes), icon="")


def with_gpu(place: Place, ranks: Callable[[], pd.DataFrame]) -> Place:
    """The place with the GPU of its rank, where the address names only the rank.

    Args:
        place: As the address says.
        ranks: Source.ranks of its run; asked for only where it is needed.
    """
    if place.gpu is not None or place.rank is None or not (place.run and place.node):
        return place
    try:
        rows = ranks()
    except TroubleError:  # the page says it
        return place
    there = rows[rows["rank"] == place.rank] if len(rows) else rows
    gpu = int(there["gpu"].iloc[0]) if len(there) else -1
    return place.but(gpu=gpu) if gpu >= 0 else place


def trail(place: Place, page: str = "gpu") -> list[Crumb]:
    """Label, page and changes of the place for each station, the outermost first.

    Args:
        place: Where the reader looks.
        page: Key of the page; collectives are those of a run.
    """
    nothing: dict[str, str | int | None] = {"node": "", "gpu": None, "rank": None, "op": ""}
    stations: list[Crumb] = [("Cluster", "cluster", nothing)]
    if place.run and page == "collectives":
        stations.append((f"Run {place.run}", "run", nothing))
    if place.node:
        stations.append((place.node, "node", {"gpu": None, "rank": None, "op": ""}))
    if place.gpu is not None:
        stations.append((f"GPU {place.gpu}", "gpu", {"op": ""}))
    if place.rank is not None:
        stations.append((f"rank {place.rank}", "gpu", {"op": ""}))
    if place.op:
        stations.append((place.op, "collectives", {}))
    return stations
