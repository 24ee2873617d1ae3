"""Whose findings are about a whole node: all of its ranks slow, or stopped, alike."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from analyzer.run import Evidence, Finding, Grid

TOGETHER = 0.5
"""Share of all windows in which any of them is slow, that all of them must be."""
ALIKE = 0.5
"""Share of the middle rank's log slowdown that each must have; a rank that is slow for itself, and
whose neighbours feel it, stays a rank."""

Group = tuple[int, ...]


def settled(grid: Grid, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Each rank slow once at a time; findings of all ranks of a node say so in `details["node"]`.

    Args:
        grid: The run's windows.
        findings: In the order of the detectors: of two about the same windows the first stays.
    """
    kept = _once(grid, findings)
    of_node = dict(_nodes(grid, kept))
    for place, node in of_node.items():
        alike = [kept[other] for other, where in of_node.items() if where == node]
        kept[place] = replace(
            kept[place], details={**kept[place].details, "node": node, **_certainty(alike)}
        )
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


def of_one_cause(
    grid: Grid, findings: Sequence[Finding], evidences: Sequence[Sequence[Evidence]]
) -> tuple[Finding, ...]:
    """The findings, those of a leaf or rack as its nodes' where these tell of different causes.

    What slows all of a leaf is one thing; two that happen to be slow at once are two.
    """
    node_of = {info.rank: info.node for info in grid.ranks}
    told: dict[object, dict[str, dict[str, list[float]]]] = {}
    for finding, evidence in zip(findings, evidences, strict=True):
        if "part" in finding.details and finding.rank is not None:
            mine = told.setdefault(finding.details["part"], {}).setdefault(
                node_of[finding.rank], {}
            )
            for one in evidence:
                mine.setdefault(one.cause, []).append(one.log_odds)
    causes: dict[object, set[str]] = {
        part: {
            max(odds, key=lambda cause: float(np.mean(odds[cause])))
            for odds in nodes.values()
            if any(np.mean(each) > 0 for each in odds.values())
        }
        for part, nodes in told.items()
    }
    return tuple(
        replace(one, details={k: v for k, v in one.details.items() if k != "part"})
        if len(causes.get(one.details.get("part"), ())) > 1
        else one
        for one in findings
    )


def _once(grid: Grid, findings: Sequence[Finding]) -> list[Finding]:
    kept: list[Finding] = []
    for finding in findings:
        if finding.kind == "slow" and any(
            other.kind == "slow"
            and other.rank == finding.rank
            and _together(grid, [other, finding], of_longest=False)
            for other in kept
        ):
            continue
        kept.append(finding)
    return kept


def _nodes(grid: Grid, findings: Sequence[Finding]) -> Iterator[tuple[int, str]]:
    """(place of a finding, the node it is about); nobody where that were every node."""
    own = grid.time["own"]
    members: dict[str, set[int]] = {}
    for column, info in enumerate(grid.ranks):
        if np.isfinite(own[:, column]).any():
            members.setdefault(info.node, set()).add(info.rank)
    whole: Mapping[str, Group] = {
        node: group
        for node, ranks in members.items()
        if len(ranks) >= 2 and (group := _group(grid, findings, ranks))
    }
    if len(whole) < len(members):
        for node, group in whole.items():
            yield from ((place, node) for place in group)


def _group(grid: Grid, findings: Sequence[Finding], ranks: set[int]) -> Group:
    """Places of findings, one of each rank, that are alike and together; () without."""
    for kind in ("hang", "slow"):
        mine = [
            (place, finding)
            for place, finding in enumerate(findings)
            if finding.kind == kind and finding.rank in ranks
        ]
        for _, first in mine:
            chosen: dict[int | None, int] = {}
            for place, finding in mine:
                if finding.rank not in chosen and _together(grid, [first, finding]):
                    chosen[finding.rank] = place
            some = [findings[place] for place in chosen.values()]
            if set(chosen) == ranks and _together(grid, some) and _alike(some):
                return tuple(chosen.values())
    return ()


def _alike(findings: Sequence[Finding]) -> bool:
    if findings[0].kind == "hang":
        return len({finding.details.get("state") for finding in findings}) == 1
    logs = np.log([finding.slowdown for finding in findings])
    return bool((logs >= ALIKE * np.median(logs)).all())


def _together(grid: Grid, findings: Sequence[Finding], *, of_longest: bool = True) -> bool:
    """Whether findings share most of the windows of any, or of the shortest, of them."""
    ends = [len(grid.start) if each.last is None else each.last for each in findings]
    begins = [each.first for each in findings]
    common = min(ends) - max(begins)
    if findings[0].kind == "hang":
        return True
    longest = max(ends) - min(begins)
    shortest = min(end - begin for end, begin in zip(ends, begins, strict=True))
    return common > 0 and common >= TOGETHER * (longest if of_longest else shortest)
