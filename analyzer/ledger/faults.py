"""MTBF, MTTR and availability of each node and of the fleet, from its faults over time.

The format is that of the fault trace of InfiniteHBD (arXiv:2502.03885): a list of events with
`node_id, event_time` (days), `event_type` (fault_start, fault_end) and `fault_type` (Level, Class,
Desc).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.analyzer.ledger.reliability import Reliability, mean, mtbf, ratio
from lockstep.analyzer.shapes.run import LoadError

DAY = 86400.0
START, END = "fault_start", "fault_end"
LONGEST_DAYS = 1e5
MOST_NODES = 10_000_000


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a node: seconds since the trace began; `end` is None where it was not mended."""

    node: str
    kind: str
    start: float
    end: float | None


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a trace says.

    Attributes:
        nodes: Nodes that were watched.
        failed_nodes: Of them, those that failed at all.
        seconds: How long they were watched.
        faults: How many faults there were; what overlaps on one node are several faults and one
            outage.
        node: One node: exposure is the up-time of all nodes.
        fleet: All of them: exposure is the time of watching.
        kinds: Class of fault -> how many, the most frequent first.
    """

    nodes: int
    failed_nodes: int
    seconds: float
    faults: int
    node: Reliability
    fleet: Reliability
    kinds: Mapping[str, int]


def read_faults(tree: Any) -> tuple[Fault, ...]:
    """The faults of a trace, by their start.

    Raises:
        LoadError: It is not of the format; the message says which event and what would be right.
    """
    if not isinstance(tree, list):
        raise LoadError("a fault trace is a JSON list of events")
    open_: dict[tuple[str, str], list[float]] = {}
    faults: list[Fault] = []
    for number, event in enumerate(tree):
        node, day, kind, what = _event(number, event)
        key = (node, what)
        if kind == START:
            open_.setdefault(key, []).append(day)
        elif open_.get(key):
            start = open_[key].pop(0)
            if day < start:
                raise LoadError(f"event {number}: the fault ends before it began")
            faults.append(Fault(node, what, start * DAY, day * DAY))
        else:
            raise LoadError(f"event {number}: a fault of {node} ends that did not begin")
    faults += [
        Fault(node, what, start * DAY, None)
        for (node, what), starts in open_.items()
        for start in starts
    ]
    return tuple(sorted(faults, key=lambda one: (one.start, one.node)))


def reliability(faults: Sequence[Fault], nodes: int | None, days: float | None) -> Fleet:
    """MTBF, MTTR and availability.

    Args:
        faults: As `read_faults` gives them.
        nodes: Nodes that were watched, those without a fault too; None = those of the faults, which
            makes each of them look worse than the fleet was.
        days: How long; None = to the last event.

    Raises:
        LoadError: Fewer nodes or days than the faults are of.
    """
    named = sorted({one.node for one in faults})
    place = {name: number for number, name in enumerate(named)}
    count = len(named) if nodes is None else nodes
    last = max((max(one.start, one.end or 0.0) for one in faults), default=0.0)
    seconds = last if days is None else days * DAY
    if count < len(named):
        raise LoadError(f"the faults are of {len(named)} nodes, more than {count}")
    begun = max((one.start for one in faults), default=0.0)
    if seconds < begun:
        raise LoadError(
            f"a fault begins on day {begun / DAY:.1f}, after the {seconds / DAY:g} days"
        )
    down = np.zeros(count)
    outages = np.zeros(count)
    repairs: list[float] = []
    of: list[int] = []
    by_node: dict[str, list[Fault]] = {name: [] for name in named}
    for one in faults:
        by_node[one.node].append(one)
    for node, mine in by_node.items():
        for start, end in _outages(mine):
            # A repair can end after the watching did; what it took is known all the same.
            down[place[node]] += (seconds if end is None else min(end, seconds)) - start
            outages[place[node]] += 1
            repairs.append(float("nan") if end is None else end - start)
            of.append(place[node])
    up = float(count * seconds - down.sum())
    failures = int(outages.sum())
    repair = mean(repairs, of)
    repaired = int(np.isfinite(np.asarray(repairs)).sum())
    watched = np.full(count, seconds)
    kinds: dict[str, int] = {}
    for one in faults:
        kinds[one.kind] = kinds.get(one.kind, 0) + 1
    return Fleet(
        nodes=count, failed_nodes=len(named), seconds=seconds, faults=len(faults),
        node=Reliability(failures, up, repaired, mtbf(failures, up), repair,
                         ratio(watched - down, watched)),
        fleet=Reliability(failures, seconds, repaired, mtbf(failures, seconds), repair,
                          ratio(watched - down, watched)),
        kinds=dict(sorted(kinds.items(), key=lambda each: (-each[1], each[0]))),
    )  # fmt: skip


def _outages(faults: Sequence[Fault]) -> list[tuple[float, float | None]]:
    """A node's faults as spans that do not overlap: it is down until the last of them is mended."""
    spans: list[tuple[float, float | None]] = []
    for one in sorted(faults, key=lambda each: each.start):
        if spans and (spans[-1][1] is None or one.start <= spans[-1][1]):
            start, end = spans[-1]
            spans[-1] = (start, None if end is None or one.end is None else max(end, one.end))
        else:
            spans.append((one.start, one.end))
    return spans


def _event(number: int, event: Any) -> tuple[str, float, str, str]:
    try:
        node, day, kind = event["node_id"], event["event_time"], event["event_type"]
        told = event.get("fault_type") or {}
        what = " ".join(str(told[name]) for name in ("Class", "Desc") if name in told)
    except (TypeError, KeyError, AttributeError):
        raise LoadError(
            f"event {number} is not one: it needs node_id, event_time and event_type"
        ) from None
    if not isinstance(node, str) or kind not in (START, END):
        raise LoadError(f"event {number}: event_type is {kind!r}; it must be {START} or {END}")
    if isinstance(day, bool) or not isinstance(day, int | float) or not 0 <= day <= LONGEST_DAYS:
        raise LoadError(f"event {number}: event_time is {day!r}; it must be days from 0")
    return node, float(day), kind, what
