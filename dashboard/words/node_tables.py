"""A node as tables: who it is, what was looked at, its GPUs; and how to take it out of service."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlencode

import pandas as pd

from lockstep.dashboard.address import Place, link
from lockstep.dashboard.palette import severity_word
from lockstep.dashboard.shapes import Check, NodeFacts, Span
from lockstep.dashboard.words.said import BADNESS

GPU_LINK = "GPU page"
DRAIN_WORDS = (
    "Before you take a node out: new pods go elsewhere after the first command, running ones stay."
    " The second one ends them; a run restarts from its last checkpoint. Nothing here runs either."
)


def checks(found: Sequence[Check]) -> pd.DataFrame:
    """Each check, the worst first."""
    ordered = sorted(found, key=lambda check: -BADNESS.index(check.severity))
    return pd.DataFrame(
        [
            (severity_word(check.severity), check.name, check.text, check.next_step)
            for check in ordered
        ],
        columns=["state", "check", "what it says", "next step"],
    )


def facts(told: Mapping[str, str]) -> pd.DataFrame:
    """Name and value of everything that is known of it."""
    return pd.DataFrame(list(told.items()), columns=["fact", "value"], dtype="str")


def gpus(told: NodeFacts, place: Place) -> pd.DataFrame:
    """Its GPUs or, where there are none, its ranks, each with a link to its page."""
    frame = told.gpus.copy()
    links = []
    for row in frame.to_dict("records"):
        gpu, rank, run = (_whole(row.get("gpu")), _whole(row.get("rank")), row.get("run"))
        there = gpu_place(place, told.node, gpu, rank, run if isinstance(run, str) else "")
        links.append(link("gpu", there) if gpu is not None or rank is not None else "")
    frame[GPU_LINK] = links
    return frame


def gpu_place(place: Place, node: str, gpu: int | None, rank: int | None, run: str) -> Place:
    """Where a GPU is, with the range of a place; -1 is no GPU and no rank.

    Args:
        place: From where the reader comes.
        node, gpu, rank: Whom the page is about.
        run: That is there; empty = that of the place.
    """
    return replace(
        place, node=node, run=run or place.run, gpu=_whole(gpu), rank=_whole(rank), metric="",
        axis="",
    )  # fmt: skip


def gpu_places(told: NodeFacts) -> list[tuple[int | None, int | None, str]]:
    """GPU, rank and run of every place that has one of the first two."""
    rows = [
        (_whole(row.get("gpu")), _whole(row.get("rank")), str(row.get("run") or ""))
        for row in told.gpus.to_dict("records")
    ]
    return [row for row in rows if row[0] is not None or row[1] is not None]


def drain(node: str) -> str:
    """The commands that take a node out of service, for people to copy."""
    name = shlex.quote(node)
    return f"kubectl cordon {name}\nkubectl drain {name} --ignore-daemonsets --delete-emptydir-data"


def grafana(base: str, node: str, span: Span) -> str:
    """The address of Grafana's page of a node; empty = there is no Grafana.

    Args:
        base: As people know Grafana, `https://host`, or as alerts are given it, `https://host/d`.
        node: Its name.
        span: The range.
    """
    if not base:
        return ""
    words = {
        "var-node": node,
        "from": int(span.start * 1000),
        "to": int(span.end * 1000),
    }
    return f"{base.rstrip('/').removesuffix('/d')}/d/lockstep-node?{urlencode(words)}"


def _whole(value: object) -> int | None:
    """A number from 0, or nothing."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return None
    return number if number >= 0 else None
