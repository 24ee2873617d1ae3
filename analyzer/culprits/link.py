"""A finding about a link between nodes -> a named culprit without a rank."""

from collections.abc import Sequence
from datetime import UTC, datetime

from analyzer.culprits.place import place_confidence
from analyzer.detectors.links import BY_GROUPS
from analyzer.model.candidate import CERTAIN
from analyzer.posterior import Posterior
from analyzer.run import Culprit, Fact, Finding, Grid

PAGE_SLOWDOWN = 1.10


def modest(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Without a link that only slow and healthy groups tell of, where anybody else is accused.

    A slow rank lengthens steps as well, and of the two it is what a drained node mends.
    """
    others = any(
        each.kind in ("slow", "hang", "link") and not _by_groups(each) for each in findings
    )
    return tuple(each for each in findings if not (others and _by_groups(each)))


def _by_groups(finding: Finding) -> bool:
    return finding.details.get("by") == BY_GROUPS


def link_culprit(grid: Grid, finding: Finding, causes: Posterior) -> Culprit:
    """The culprit of a finding of kind `link`: the node whose link it is, or the two nodes.

    Or the leaf or rack that all troubled nodes share: scope `rack`, its name in `link`.
    """
    since = datetime.fromtimestamp(float(grid.start[finding.first]), UTC)
    return Culprit(
        scope="rack" if finding.details.get("part_nodes") else "link",
        rank=None,
        node=finding.details["node"],
        gpu=None,
        uuid=None,
        dp=None,
        pp=None,
        tp=None,
        link=finding.details["link"],
        from_step=int(grid.from_step[finding.first]),
        to_step=None if finding.last is None else int(grid.to_step[finding.last - 1]),
        since=since.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        slowdown=finding.slowdown,
        slowdown_interval=finding.interval,
        cause=causes.cause,
        confidence=min(causes.probability, CERTAIN),
        tier="page" if finding.slowdown >= PAGE_SLOWDOWN else "record",
        evidence=(
            Fact(True, finding.text, "wall_seconds - own_seconds of steps.parquet, least by step"),
            *causes.facts,
        ),
        place_confidence=place_confidence(finding, len(grid.ranks)),
    )
