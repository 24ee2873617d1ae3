"""Cluster: where is it slow, hot, idle, broken?"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from lockstep.dashboard.address import link
from lockstep.dashboard.context import Context
from lockstep.dashboard.figures import deviation, heatmap
from lockstep.dashboard.figures.layout_map import layout_map
from lockstep.dashboard.shapes import FLEET_METRICS, FleetMetric, FleetSnapshot
from lockstep.dashboard.trouble import Kind, TroubleError
from lockstep.dashboard.widgets.choices import choice
from lockstep.dashboard.widgets.links import link_to
from lockstep.dashboard.widgets.shown import later, part, picture, sentence, table
from lockstep.dashboard.words import places

WORST = 20
LINKED = 3
"""Of the worst places that have links under the map."""
LINKS = ("GPU page", "node page")


def show(context: Context) -> None:
    """Draws the page."""
    metric = chosen_metric(context.location.metric)
    run = context.location.run
    at = context.span.end if run or context.location.until else None
    fleet = context.source.fleet(metric, at)
    fleet = heatmap.only_run(fleet, run) if run else fleet
    away = deviation.of_fleet(fleet)
    worst = [int(each) for each in deviation.worst(metric, fleet.values, WORST)]
    said = places.fleet(fleet, away, heatmap.line(fleet, worst[0]) if worst else "", run,
                        live=context.answer.live and not context.location.until)  # fmt: skip
    sentence(said.text, said.severity)
    choice("Show", "metric", {metric.key: metric.title for metric in FLEET_METRICS}, metric.key)
    order = _order(context)
    chosen = picture(heatmap.fleet(fleet, order), "fleet", select=True)
    _links(context, fleet, chosen, worst)
    _table(context, fleet, worst)
    later("How the values are spread", "spread-open",
          lambda: picture(deviation.histogram(fleet), "spread"))  # fmt: skip
    if run:
        _layout(context)


def chosen_metric(key: str) -> FleetMetric:
    """The metric of the address; the first one where it names none.

    Raises:
        TroubleError: There is none of that name.
    """
    known = {metric.key: metric for metric in FLEET_METRICS}
    if key and key not in known:
        raise TroubleError(
            Kind.UNKNOWN_ID,
            f"The address says metric={key!r}; the map of the cluster has none of that name.",
            f"Write one of these: {', '.join(known)}.",
        )
    return known.get(key, FLEET_METRICS[0])


def _order(context: Context) -> str:
    if context.location.run:
        link_to("Show all GPUs, not only those of this run", "cluster", context.location, run="")
        return "place"
    order = "run" if context.location.axis == "run" else "place"
    choice("Order", "axis", {"": "by rack and node", "run": "by run"}, context.location.axis)
    return order


def _links(context: Context, fleet: FleetSnapshot, chosen: Any, worst: Sequence[int]) -> None:
    """Where the reader goes from here: the place that was clicked, else the worst ones."""
    with st.container(horizontal=True, vertical_alignment="center"):
        if isinstance(chosen, list | tuple) and len(chosen) == 3:
            node, gpu, rank = str(chosen[0]), int(chosen[1]), int(chosen[2])
            st.text("You clicked:")
            there = (fleet.nodes == node) & (fleet.gpus == gpu) & (fleet.ranks == rank)
            run = str(fleet.runs[there][0]) if there.any() else ""
            _node(context, node, run)
            _gpu(context, node, gpu, rank, run)
        elif worst:
            st.text("The worst places (a click on a mark leads to others):")
            for node, run in _nodes(fleet, worst)[:LINKED]:
                _node(context, node, run)
            for index in worst[:LINKED]:
                _gpu(context, *_names(fleet, index))


def _names(fleet: FleetSnapshot, index: int) -> tuple[str, int, int, str]:
    return (
        str(fleet.nodes[index]), int(fleet.gpus[index]), int(fleet.ranks[index]),
        str(fleet.runs[index]),
    )  # fmt: skip


def _nodes(fleet: FleetSnapshot, worst: Sequence[int]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((str(fleet.nodes[index]), str(fleet.runs[index])) for index in worst))


def _node(context: Context, node: str, run: str) -> None:
    link_to(node, "node", context.location, node=node, gpu=None, rank=None,
            run=run or context.location.run, metric="", axis="")  # fmt: skip


def _gpu(context: Context, node: str, gpu: int, rank: int, run: str) -> None:
    if gpu < 0 and rank < 0:
        return
    label = f"{node} GPU {gpu}" if gpu >= 0 else f"{node} rank {rank}"
    link_to(label, "node", places.gpu_place(context.location, node, gpu, rank, run))


def _table(context: Context, fleet: FleetSnapshot, worst: Sequence[int]) -> None:
    st.subheader(f"The {len(worst)} worst" if worst else "The worst", anchor=False)
    frame = heatmap.ranked(fleet, WORST)
    if frame.empty:
        st.caption("No place reported this metric, or none has two others to be compared with.")
        return
    names = [_names(fleet, index) for index in worst]
    pages = (
        [link("node", places.gpu_place(context.location, *name)) if max(name[1:3]) >= 0 else ""
         for name in names],
        [link("node", context.location, node=node, gpu=None, rank=None,
              run=run or context.location.run, metric="", axis="")
         for node, _, _, run in names],
    )  # fmt: skip
    for name, addresses in zip(LINKS, pages, strict=True):
        frame[name] = addresses
    table(frame, "worst", "The worst places, the worst first.", links=LINKS)


def _layout(context: Context) -> None:
    st.subheader("By replica and pipeline stage", anchor=False)
    verdict = part(lambda: context.source.verdict(context.location.run))
    picture(layout_map((verdict or {}).get("what_if") or {}), "layout")
