"""What the ranks of one node, leaf or rack tell together."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analyzer.run import Evidence, Finding, Grid
from collector.contract.words import Cause

UNKNOWN = Cause.UNKNOWN.value


def node_of(finding: Finding) -> str | None:
    """The node that a rank's finding is about; None where it is about the rank."""
    return finding.details.get("node") if finding.kind in ("slow", "hang") else None


def pooled(
    findings: Sequence[Finding], evidences: Sequence[Sequence[Evidence]]
) -> tuple[tuple[Evidence, ...], ...]:
    """The evidence about each finding; of the ranks of one node or part their mean log odds.

    The mean, and not the sum: what the ranks of a host tell comes from the same host, and is not
    independent (logarithmic opinion pool with equal weights; Genest and Zidek 1986). Facts stay
    with their ranks; `analyzer.culprits.together` says them once.
    """
    told = [tuple(each) for each in evidences]
    by_node: dict[tuple[object, str], list[int]] = {}
    for place, finding in enumerate(findings):
        whole = finding.details.get("part") or node_of(finding)
        if whole is not None:
            by_node.setdefault((whole, finding.kind), []).append(place)
    for places in by_node.values():
        odds: dict[str, list[float]] = {}
        for place in places:
            for one in told[place]:  # a rank without GPU can have fewer causes than its mates
                odds.setdefault(one.cause, []).append(one.log_odds)
        for place in places:
            told[place] = tuple(
                replace(one, log_odds=float(np.mean(odds[one.cause]))) for one in told[place]
            )
    return tuple(told)


def apart(
    grid: Grid, findings: Sequence[Finding], evidences: Sequence[Sequence[Evidence]]
) -> tuple[Finding, ...]:
    """The findings, those of a leaf or rack as its nodes' where causes of their own are likelier.

    What slows all of a leaf is one thing, two that happen to be slow at once are two: the log odds
    of the likeliest cause of all nodes together against the sum of each node's own likeliest. Each
    node but the first costs the choice among all causes.
    """
    node_of = {info.rank: info.node for info in grid.ranks}
    told: dict[object, dict[str, dict[str, list[float]]]] = {}
    for finding, evidence in zip(findings, evidences, strict=True):
        if "part" in finding.details and finding.rank is not None:
            nodes = told.setdefault(finding.details["part"], {})
            mine = nodes.setdefault(node_of[finding.rank], {UNKNOWN: [0.0]})
            for one in evidence:
                mine.setdefault(one.cause, []).append(one.log_odds)
    split = set()
    for part, nodes in told.items():
        odds = [{cause: float(np.mean(each)) for cause, each in m.items()} for m in nodes.values()]
        every = {cause for mine in odds for cause in mine}
        shared = max(sum(mine.get(cause, 0.0) for mine in odds) for cause in every)
        own = sum(max(mine.values()) for mine in odds)
        if own - (len(odds) - 1) * float(np.log(len(every))) > shared:
            split.add(part)
    return tuple(
        replace(one, details={k: v for k, v in one.details.items() if k != "part"})
        if one.details.get("part") in split
        else one
        for one in findings
    )
