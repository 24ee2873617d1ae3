"""Which nodes there are, which targets tell of them, and who the ranks of a run are."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lockstep.analyzer.read.prometheus.kubernetes import places
from lockstep.analyzer.read.prometheus.promql import lasting, of_targets, one_of, series
from lockstep.analyzer.read.prometheus.questions import NODES_BY_RANK, collectors
from lockstep.analyzer.read.ranks import last_attempts
from lockstep.analyzer.shapes.labels import Target, number, page_label, target_of
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import RANK_INFO
from lockstep.dashboard.sources.prometheus.asking import Asking, Row

LOOK_BACK = 3600.0
"""Seconds in which a node that is known told last."""
RANK_LOOK_BACK = 900.0
"""Seconds in which a rank told who it is."""
MOST_SERIES = 64
"""Raw series that a query over time reads: what it costs does not grow with the fleet."""
DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Directory:
    """Nodes at a moment.

    Attributes:
        nodes: In the order of the map: rack, leaf, name.
        targets: Node -> its targets.
        node_of: Target -> its node.
        rack: Node -> rack and leaf, empty where nobody tells.
    """

    nodes: tuple[str, ...]
    targets: Mapping[str, tuple[Target, ...]]
    node_of: Mapping[Target, str]
    rack: Mapping[str, Mapping[str, str]]

    def name(self, labels: Mapping[str, str]) -> str:
        """The node of a series of a page."""
        return (
            self.node_of.get(target_of(labels))
            or page_label(labels, "node")
            or labels.get("instance", "")
        )


@dataclass(frozen=True, slots=True)
class Member:
    """A rank: who it is and where."""

    rank: int
    node: str
    gpu: int | None
    uuid: str
    dp: int
    pp: int
    tp: int
    world: int
    target: Target


def directory(asking: Asking, at: float) -> Directory:
    """The nodes whose collectors were scraped in the last LOOK_BACK before a moment."""
    names: dict[Target, str] = {}
    for labels, _ in asking.instant(collectors(LOOK_BACK), at):
        names[target_of(labels)] = labels.get("node") or labels.get("instance", "")
    # What ranks call their node goes before what Prometheus calls it, as in the analyzer.
    for labels, _ in asking.instant(NODES_BY_RANK, at):
        if page_label(labels, "node") and target_of(labels) in names:
            names[target_of(labels)] = page_label(labels, "node")
    rack = asking.call(lambda: places(asking.connection, at))
    targets: dict[str, list[Target]] = {}
    for target, name in sorted(names.items()):
        targets.setdefault(name, []).append(target)

    def order(name: str) -> tuple[object, ...]:
        where = rack.get(name, {})
        return where.get("rack", ""), where.get("leaf", ""), natural(name)

    return Directory(
        nodes=tuple(sorted(targets, key=order)),
        targets={name: tuple(found) for name, found in targets.items()},
        node_of=names,
        rack=rack,
    )


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """For sorting: node-2 before node-10."""
    parts = DIGITS.split(name)
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts if part)


def members(asking: Asking, known: Directory, run: str, at: float) -> tuple[Member, ...]:
    """The ranks of a run that told who they are shortly before a moment, by rank."""
    infos = series(RANK_INFO.name, run=run)
    query = f"last_over_time({infos}[{lasting(RANK_LOOK_BACK)}])"
    return tuple(
        Member(who.rank, known.name(labels), who.gpu, who.uuid, who.dp, who.pp, who.tp, who.world,
               target_of(labels))
        for who, labels in last_attempts(asking.instant(query, at))
    )  # fmt: skip


def hardware(chosen: Sequence[Member]) -> tuple[str, str]:
    """Matchers of the pages and of the GPUs of some ranks; empty = there are none."""
    uuids = sorted({one.uuid for one in chosen if one.uuid})
    pages = of_targets(one.target for one in chosen) if chosen else ""
    if not uuids:
        return pages, ""
    return pages, f"uuid=~{one_of(uuids)}"


def spread(indices: Sequence[int], most: int) -> list[int]:
    """At most so many of them, evenly."""
    if len(indices) <= most:
        return list(indices)
    return [indices[round(index * (len(indices) - 1) / (most - 1))] for index in range(most)]


def sample(members: Sequence[Member], most: int = MOST_SERIES) -> list[Member]:
    """At most so many ranks, evenly over the run."""
    return [members[index] for index in spread(range(len(members)), most)]


# Which of the ranks that are told of at one place lives: a gone one is told of for ten minutes.


def living_last(asking: Asking, rows: Iterable[Row], at: float, pages: str = "") -> list[Row]:
    """Rows of `lockstep_rank_info` so that of each place the last counts: who lives.

    A run that was started again stands on the nodes of the one before, beside whom it is told of.

    Args:
        asking: The Prometheus.
        rows: With job, instance, run and rank.
        at: Unix seconds.
        pages: Matcher of the pages; empty = all.
    """
    query = f"max by (job, instance, run, rank) ({series(m.RANK_UP.name, pages)})"
    up = {_who(labels): value for labels, value in asking.instant(query, at)}

    def order(row: Row) -> tuple[float, int, str]:
        who = _who(row[0])
        return up.get(who, 0.5), number(row[0], "attempt") or 0, str(who)  # not told: neither

    return sorted(rows, key=order)


def _who(labels: Mapping[str, str]) -> tuple[Target, str, int | None]:
    return target_of(labels), page_label(labels, "run"), number(labels, "rank")
