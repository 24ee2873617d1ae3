"""Slow nodes that are all of a leaf or rack, and nobody else -> one culprit: the leaf or rack.

A power brake of a supply, hot air or a bad leaf slows every node behind it (docs/method/causes.md);
draining one of them mends nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analyzer.readers.places import places_of
from analyzer.run import Culprit, Fact, Grid
from analyzer.shared_part import Part, part_of_nodes

TOGETHER = 0.5
"""Share of the shorter span in which two culprits must be slow together."""


def by_place(grid: Grid, culprits: Sequence[Culprit]) -> tuple[Culprit, ...]:
    """The culprits, those of one leaf or rack as one of scope `rack`; without places as they are.

    All of them must be slow for the same cause and in the same steps, every node of the part that
    takes part in the run must be among them, and at least two nodes elsewhere must not.
    """
    places = places_of(grid.meta)
    if not places:
        return tuple(culprits)
    nodes = {info.node for info in grid.ranks}
    for first in culprits:
        alike = [each for each in culprits if _alike(grid, first, each)]
        slow = {str(each.node) for each in alike}
        part = part_of_nodes(slow, nodes - slow, places)
        if part is not None:
            one = _rack(alike, part, slow, len(nodes))
            rest = tuple(each for each in culprits if each not in alike)
            return (one, *by_place(grid, rest))
    return tuple(culprits)


def _alike(grid: Grid, first: Culprit, other: Culprit) -> bool:
    """Whether both are slow nodes or ranks, for the same cause, mostly in the same steps."""
    if any(each.node is None or each.slowdown is None for each in (first, other)):
        return False
    if first.cause != other.cause or "link" in (first.scope, other.scope):
        return False
    (a, b), (c, d) = _span(grid, first), _span(grid, other)
    return min(b, d) - max(a, c) >= TOGETHER * min(b - a, d - c)


def _span(grid: Grid, culprit: Culprit) -> tuple[int, int]:
    end = int(grid.to_step.max()) if culprit.to_step is None else culprit.to_step
    return (0 if culprit.from_step is None else culprit.from_step), end


def _rack(alike: Sequence[Culprit], part: Part, slow: set[str], nodes: int) -> Culprit:
    worst = max(alike, key=lambda each: each.slowdown or 0.0)
    slowdown = float(np.median([each.slowdown for each in alike if each.slowdown is not None]))
    bounds = [each.slowdown_interval for each in alike if each.slowdown_interval is not None]
    interval = None
    if bounds:
        low, high = np.median(np.array(bounds), axis=0)
        interval = (float(low), float(high))
    names = ", ".join(sorted(slow)[:8]) + (", ..." if len(slow) > 8 else "")
    text = (
        f"{names} are slow in the same steps: all {len(slow)} nodes of {part} in this run, and none"
        f" of the other {nodes - len(slow)}"
    )
    begins = [each for each in alike if each.from_step is not None]
    began = min(begins, key=lambda each: each.from_step or 0, default=worst)
    ends = [each.to_step for each in alike]
    last = None if None in ends else max(end for end in ends if end is not None)
    return replace(
        worst,
        scope="rack",
        rank=None, node=None, gpu=None, uuid=None, dp=None, pp=None, tp=None,
        link=str(part),
        from_step=began.from_step,
        since=began.since,
        to_step=last,
        slowdown=slowdown,
        slowdown_interval=interval,
        # No surer than the least sure of those it is made of.
        confidence=min(each.confidence for each in alike),
        place_confidence=min(each.place_confidence or 0.0 for each in alike),
        tier="page" if any(each.tier == "page" for each in alike) else "record",
        evidence=(
            Fact(True, text, "topology.toml"),
            *(each.evidence[0] for each in alike if each.evidence),
            *worst.evidence[1:],
        ),
    )  # fmt: skip
