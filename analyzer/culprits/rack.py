"""Slow nodes that are a leaf or rack -> one culprit: the leaf or rack.

A power brake of a supply, hot air or a bad leaf slows every node behind it (docs/method/causes.md);
draining one of them mends nothing. Whether it is the part or some of its nodes, the search told
(analyzer.detectors.effects).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analyzer.run import Culprit, Fact, Finding, Grid
from analyzer.shared_part import Part


def by_place(
    grid: Grid, findings: Sequence[Finding], culprits: Sequence[Culprit]
) -> tuple[Culprit, ...]:
    """The culprits, those of one leaf or rack as one of scope `rack`, in place of their first.

    Args:
        grid: The run's windows.
        findings: Those that accuse; of a part they say so in `details["part"]`.
        culprits: Ranks, nodes and links.
    """
    node_of = {info.rank: info.node for info in grid.ranks}
    part_of: dict[str | None, Part] = {
        node_of[int(one.rank)]: one.details["part"]
        for one in findings
        if one.rank is not None and "part" in one.details
    }
    together: dict[object, list[Culprit]] = {}
    for place, one in enumerate(culprits):
        part = None if one.scope == "link" or one.slowdown is None else part_of.get(one.node)
        together.setdefault(place if part is None else part, []).append(one)
    nodes = len(set(node_of.values()))
    return tuple(
        _rack(alike, key, {str(each.node) for each in alike}, nodes)
        if isinstance(key, Part)
        else alike[0]
        for key, alike in together.items()
    )


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
        # Pooled over all of them, and told of each.
        confidence=min(each.confidence for each in alike),
        place_confidence=min(each.place_confidence or 0.0 for each in alike),
        tier="page" if any(each.tier == "page" for each in alike) else "record",
        evidence=(
            Fact(True, text, "topology.toml"),
            *(each.evidence[0] for each in alike if each.evidence),
            *worst.evidence[1:],
        ),
    )  # fmt: skip
