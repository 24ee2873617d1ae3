"""A finding about a link between nodes -> a named culprit without a rank."""

from lockstep.analyzer.causes.posterior import Posterior
from lockstep.analyzer.shapes.run import Culprit, Fact, Finding, Grid
from lockstep.analyzer.shapes.wording import utc
from lockstep.analyzer.stragglers.confidence import CERTAIN, PAGE_SLOWDOWN, place_confidence


def link_culprit(grid: Grid, finding: Finding, causes: Posterior) -> Culprit:
    """The culprit of a finding of kind `link`: the node whose link it is, or the two nodes.

    Or the leaf or rack that all troubled nodes share: scope `rack`, its name in `link`. Of nodes
    with no leaf that anybody told of, the names of these.
    """
    return Culprit(
        scope=finding.details["scope"],
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
        since=utc(float(grid.start[finding.first])),
        slowdown=finding.slowdown,
        slowdown_interval=finding.interval,
        cause=causes.cause,
        confidence=min(causes.probability, CERTAIN),
        tier="page" if finding.slowdown >= PAGE_SLOWDOWN else "record",
        evidence=(
            Fact(True, finding.text, "wall_seconds - own_seconds of steps.parquet, least by step"),
            *causes.facts,
        ),
        place_confidence=place_confidence(finding, grid),
    )
