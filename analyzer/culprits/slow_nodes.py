"""Whose findings are about a whole node: all of its ranks slow, or stopped, alike."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from analyzer.run import Evidence, Finding, Grid

TOGETHER = 0.5
"""Share of the shorter one's windows from which two findings are about the same slowness."""


def settled(grid: Grid, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Each rank slow once at a time; stops of all ranks of a node say so in `details["node"]`.

    Args:
        grid: The run's windows.
        findings: In the order of the detectors: of two about the same windows the first stays.
    """
    kept = _once(grid, findings)
    for node, places in _stopped_nodes(grid, kept):
        certainty = _certainty([kept[place] for place in places])
        for place in places:
            details = {**kept[place].details, "node": node, **certainty}
            kept[place] = replace(kept[place], details=details)
    return tuple(kept)


def _certainty(findings: Sequence[Finding]) -> dict[str, float]:
    """Which of several ranks began a hang matters less where they are of one node."""
    told = [float(each.details["certainty"]) for each in findings if "certainty" in each.details]
    return {"certainty": min(sum(told), 1.0)} if told else {}


def node_of(finding: Finding) -> str | None:
    """The node that a rank's finding is about; None where it is about the rank."""
    return finding.details.get("node") if finding.kind in ("slow", "hang") else None


def pooled(
    findings: Sequence[Finding], evidences: Sequence[Sequence[Evidence]]
) -> tuple[tuple[Evidence, ...], ...]:
    """The evidence about each finding; of the ranks of one node or part their mean log odds.

    The mean, and not the sum: what the ranks of a host tell comes from the same host, and is not
    independent (logarithmic opinion pool with equal weights; Genest and Zidek 1986). Facts stay
    with their ranks; `analyzer.culprits.node` says them once.
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


def _once(grid: Grid, findings: Sequence[Finding]) -> list[Finding]:
    kept: list[Finding] = []
    for finding in findings:
        if finding.kind == "slow" and any(
            other.kind == "slow" and other.rank == finding.rank and _together(grid, other, finding)
            for other in kept
        ):
            continue
        kept.append(finding)
    return kept


def _together(grid: Grid, one: Finding, other: Finding) -> bool:
    """Whether they share most of the windows of the shorter one."""
    ends = [len(grid.start) if each.last is None else each.last for each in (one, other)]
    begins = [one.first, other.first]
    common = min(ends) - max(begins)
    shortest = min(end - begin for end, begin in zip(ends, begins, strict=True))
    return common > 0 and common >= TOGETHER * shortest


def _stopped_nodes(
    grid: Grid, findings: Sequence[Finding]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(node, places of its findings) where all its ranks stopped alike; none of every node.

    Of slow ranks the search itself says whether it is the node (analyzer.detectors.effects).
    """
    own = grid.time["own"]
    members: dict[str, set[int]] = {}
    for column, info in enumerate(grid.ranks):
        if np.isfinite(own[:, column]).any():
            members.setdefault(info.node, set()).add(info.rank)
    stops = {one.rank: place for place, one in enumerate(findings) if one.kind == "hang"}
    whole = {
        node: tuple(stops[rank] for rank in sorted(ranks))
        for node, ranks in members.items()
        if len(ranks) >= 2 and ranks <= set(stops)
    }
    if len(whole) < len(members):
        for node, places in whole.items():
            if len({findings[place].details.get("state") for place in places}) == 1:
                yield node, places
