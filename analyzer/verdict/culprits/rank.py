"""A finding with its causes -> a named culprit, and whether it wakes somebody."""

from collections.abc import Mapping, Sequence

import numpy as np

from lockstep.analyzer.causes.posterior import Posterior
from lockstep.analyzer.operations.examine import DETECTOR, Look, Placed
from lockstep.analyzer.shapes.run import Culprit, Fact, Finding, Grid
from lockstep.analyzer.shapes.wording import utc
from lockstep.analyzer.stats.before_after import column_of
from lockstep.analyzer.stats.significance import TRANSIENT_SHARE, WAKES, WAKES_BY_BOUND
from lockstep.analyzer.stats.transfers import waited_for
from lockstep.analyzer.stragglers.confidence import CERTAIN, PAGE_SLOWDOWN, place_confidence
from lockstep.analyzer.stragglers.step_time import cost


def culprit(
    grid: Grid,
    finding: Finding,
    causes: Posterior,
    slow: Sequence[Finding],
    seen: Look,
) -> Culprit:
    """The culprit of a finding that accuses.

    Args:
        grid: The run's windows.
        finding: Who, when and how slow.
        causes: Why.
        slow: Those of all slow ranks.
        seen: What the operations say.
    """
    column = column_of(grid, finding.rank)
    assert column is not None
    info = grid.ranks[column]
    hang = finding.kind == "hang"
    suspect = seen.of(grid, finding)
    told = _operation_facts(suspect, finding)
    query = str(finding.details.get("query", _FIRST_QUERY[finding.kind]))
    facts = (
        Fact(True, finding.text, query),
        *waited_for(grid, finding),
        *told,
        *causes.facts,
    )
    if hang:
        from_step, since = _stopped(grid, column)
    else:
        from_step, since = int(grid.from_step[finding.first]), float(grid.start[finding.first])
    end = None if finding.last is None else int(grid.to_step[finding.last - 1])
    if seen.alone and suspect is not None:
        end = suspect.worker.to_step  # traced steps may lie apart
    unended = bool(finding.details.get("unended"))
    page = hang or _wakes(grid, finding, slow, seen)
    return Culprit(
        scope="rank",
        rank=info.rank,
        node=None if seen.alone else info.node,
        gpu=info.gpu,
        uuid=info.uuid,
        dp=info.dp,
        pp=info.pp,
        tp=None if seen.folded else info.tp,
        link=None,
        from_step=from_step,
        to_step=None if unended else end,
        since=utc(since) if np.isfinite(since) else None,
        slowdown=None if hang else finding.slowdown,
        slowdown_interval=None if hang else finding.interval,
        cause=causes.cause,
        confidence=min(causes.probability, CERTAIN),
        tier="page" if page else "record",
        evidence=facts,
        place_confidence=place_confidence(finding, grid),
        known_to_step=end if unended else None,
    )


def _operation_facts(suspect: Placed | None, finding: Finding) -> tuple[Fact, ...]:
    """What operations say about a rank: who waits for it, what it costs; the finding is told."""
    if suspect is None:
        return ()
    facts = suspect.worker.facts
    return facts[1:] if finding.detector == DETECTOR else facts


_FIRST_QUERY: Mapping[str, str] = {
    "slow": "own_seconds of steps.parquet by rank",
    "hang": "lockstep_train_enqueued_sequence - lockstep_train_completed_sequence",
}


def _wakes(grid: Grid, finding: Finding, slow: Sequence[Finding], seen: Look) -> bool:
    """By the bounds of the windows, and by the simulation where it knows the suspect.

    Operations that cannot tell which of two workers is normal wake nobody; windows that can, do.
    """
    suspect = seen.of(grid, finding)
    if suspect is None or suspect.worker.fix is None or not seen.simulated:
        return _pages(grid, finding, slow)
    if finding.detector == DETECTOR or suspect.worker.wakes:
        return suspect.worker.wakes
    inside = float(suspect.finding.inside(grid)[~grid.masked].mean())
    return _pages(grid, finding, slow) and suspect.worker.fix["gain"] >= WAKES * inside


def _pages(grid: Grid, finding: Finding, slow: Sequence[Finding]) -> bool:
    """Slow enough, and the run gains enough: by mending it, or all, as two can hide each other.

    What is over, and was little of the run, wakes nobody: there is no node to drain.
    """
    seconds = grid.end - grid.start
    over = finding.last is not None and not finding.details.get("unended")
    if over and seconds[finding.first : finding.last].sum() < TRANSIENT_SHARE * seconds.sum():
        return False
    bills = [cost(grid, [finding]), cost(grid, slow)]
    effect = max((bill.slowdown - 1.0 for bill in bills if bill is not None), default=0.0)
    return finding.slowdown >= PAGE_SLOWDOWN and effect >= WAKES_BY_BOUND


def _stopped(grid: Grid, column: int) -> tuple[int | None, float]:
    """(first step that the rank did not complete, when the last one ended)."""
    done = np.flatnonzero(np.isfinite(grid.time["wall"][:, column]))
    if not done.size:
        return None, float("nan")
    return int(grid.to_step[done[-1]]), float(grid.end[done[-1]])
