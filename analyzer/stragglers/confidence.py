"""How certain the place of a finding is, and of findings that explain the same time the likeliest.

Windows, operations, checkpoint writes and exchanges inside a tensor-parallel group are observations
of one state: who is slow in one of them is accused once, by the one that is furthest beyond chance.
A node that may only hold a heavier stage explains nothing that another one does not.
"""

import math
import sys
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import log_ndtr

from lockstep.analyzer.shapes.run import STEPS_CERTAINTY, Finding, Grid
from lockstep.analyzer.stats.changepoint import FALSE_ALARM
from lockstep.analyzer.stats.robust_stats import median_of
from lockstep.analyzer.stats.significance import TENTH_MORE

CERTAIN = 1.0 - FALSE_ALARM
"""Nothing is known better than this."""
LIKELIER = 0.5
"""Confidence in a place from which it is likelier than all others, and nobody, together."""
HEAVY = "heavy"
"""Kind of findings whose place times leave open, as `details["place_confidence"]` says: a node is
slow, or the stage heavy that it alone holds."""
UNPLACED = "unplaced"
"""Kind of findings whose place is not likelier than all others: somebody is slow, and nobody can
say who."""


def accepted(grid: Grid, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings without those that an accepted one explains better, in their order.

    Args:
        grid: The run's windows.
        findings: Of all observations; what is no rank's stays.
    """
    ranks = len(grid.ranks)
    order = sorted(
        (index for index, finding in enumerate(findings) if finding.kind in ("slow", HEAVY)),
        key=lambda index: (findings[index].kind != "slow", log_chance(findings[index], ranks)),
    )
    kept: list[Finding] = []
    explained: set[int] = set()
    for index in order:
        finding = findings[index]
        if any(finding.rank == other.rank and _at_once(grid, finding, other) for other in kept):
            explained.add(index)
        else:
            kept.append(finding)
    return tuple(finding for index, finding in enumerate(findings) if index not in explained)


def surely_slower(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings; those of a slow place whose own interval holds 1 accuse nobody.

    Of a node, leaf or rack the interval is the middle of its ranks', as it is of a culprit.
    """
    lows: dict[Hashable, list[float]] = {}
    for finding in findings:
        if finding.kind == "slow":
            lows.setdefault(_place(finding), []).append(finding.interval[0])
    none = {place for place, low in lows.items() if round(median_of(np.array(low)), 2) <= 1.0}
    why = "but that interval holds 1.00: it may be as fast as ever"
    return tuple(
        replace(finding, kind=UNPLACED, text=f"{finding.text}; {why}")
        if finding.kind == "slow" and _place(finding) in none
        else finding
        for finding in findings
    )


def _place(finding: Finding) -> Hashable:
    where = finding.details.get("part") or finding.details.get("node")
    return (finding.rank, finding.first) if where is None else where


def log_chance(finding: Finding, ranks: int) -> float:
    """Log of the chance that noise alone stands out as far anywhere, which any search can tell.

    p = tries * Phi(-score). How many tries the search made is what its critical score corrects for,
    as it keeps the chance at FALSE_ALARM; of a search that tells none they are the ranks. A search
    that knows how its noise is distributed says `details["log_chance"]` itself.
    """
    known = finding.details.get("log_chance")
    if known is not None:
        return float(known)
    critical = finding.details.get("critical_score")
    tries = math.log(ranks)
    if critical is not None:
        tries = math.log(FALSE_ALARM) - float(log_ndtr(-float(critical)))
    return tries + float(log_ndtr(-finding.score))


def _at_once(grid: Grid, finding: Finding, other: Finding) -> bool:
    """Whether they share half of the shorter one's windows, and so explain the same time."""
    (first, last), (begin, end) = (
        (finding.first, _stop(grid, finding)) for finding in (finding, other)
    )
    common = min(last, end) - max(first, begin)
    return common > 0 and 2 * common >= min(last - first, end - begin)


def _stop(grid: Grid, finding: Finding) -> int:
    return len(grid.start) if finding.last is None else finding.last


PAGE_SLOWDOWN = 1.0 + TENTH_MORE
"""Of the place, from which somebody is woken."""
LEAST_LOG = math.log(sys.float_info.min)
"""e to a smaller power is 0 to a computer."""


def place_confidence(finding: Finding, grid: Grid) -> float:
    """Probability of the place, 0 to CERTAIN.

    As whoever found it tells it: `details["place_confidence"]`, its posterior among the places that
    explain the same windows, or a hang's `certainty`. Else by how far it is beyond chance. No place
    is surer than the steps that nobody reported (docs/method/durations.md#steps).

    Args:
        finding: That accuses.
        grid: The run's windows.
    """
    given = finding.details.get("place_confidence", finding.details.get("certainty"))
    known = _beyond_chance(finding, len(grid.ranks)) if given is None else float(given)
    sure = grid.meta.get(STEPS_CERTAINTY)
    most = min(CERTAIN, sure) if isinstance(sure, float) else CERTAIN
    return min(max(known, 0.0), most)


def _beyond_chance(finding: Finding, ranks: int) -> float:
    """1 / (1 - e p ln p): what a p-value leaves at most for "it was not chance", at even odds.

    (Sellke, Bayarri, Berger, "Calibration of p values for testing precise null hypotheses", The
    American Statistician 2001.)
    """
    log_p = max(log_chance(finding, ranks), LEAST_LOG)
    if not log_p < -1.0:
        # From p = 1 / e on the bound says nothing but the odds before.
        return LIKELIER
    return 1.0 / (1.0 - math.e * math.exp(log_p) * log_p)
