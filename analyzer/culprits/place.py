"""How certain it is that a finding is about the right place, whatever the cause there may be."""

import math
from collections.abc import Sequence
from dataclasses import replace

from scipy.special import log_ndtr

from analyzer.model.candidate import CERTAIN
from analyzer.run import STEPS_CERTAINTY, Culprit, Finding, Grid
from analyzer.slowness.changepoint import FALSE_ALARM

LEAST_LOG = -700.0
"""e to a smaller power is 0 to a computer."""


def place_confidence(finding: Finding, ranks: int) -> float:
    """Probability of the place, 0 to CERTAIN.

    As whoever found it tells it: `details["place_confidence"]`, its posterior among the places that
    explain the same windows, or a hang's `certainty`. Else by how far it is beyond chance.

    Args:
        finding: That accuses.
        ranks: Of the run.
    """
    told = finding.details.get("place_confidence", finding.details.get("certainty"))
    known = _beyond_chance(finding, ranks) if told is None else float(told)
    return min(max(known, 0.0), CERTAIN)


def as_sure_as_steps(culprits: Sequence[Culprit], grid: Grid) -> tuple[Culprit, ...]:
    """No place is surer than the steps that nobody told of (docs/method/durations.md#steps)."""
    sure = grid.meta.get(STEPS_CERTAINTY)
    if not isinstance(sure, float):
        return tuple(culprits)
    return tuple(
        one
        if one.place_confidence is None
        else replace(one, place_confidence=min(one.place_confidence, sure))
        for one in culprits
    )


def _beyond_chance(finding: Finding, ranks: int) -> float:
    """1 / (1 - e p ln p): what a p-value leaves at most for "it was not chance", at even odds.

    p = tries * Phi(-score) is the chance that noise alone stands out as far anywhere. How many
    tries the search made is what its critical score corrects for, as it keeps the chance at
    FALSE_ALARM; of a search that tells none they are the ranks. (Sellke, Bayarri, Berger,
    "Calibration of p values for testing precise null hypotheses", The American Statistician 2001.)
    """
    critical = finding.details.get("critical_score")
    tries = math.log(ranks)
    if critical is not None:
        tries = math.log(FALSE_ALARM) - float(log_ndtr(-float(critical)))
    log_p = max(tries + float(log_ndtr(-finding.score)), LEAST_LOG)
    if not log_p < -1.0:
        # From p = 1 / e on the bound says nothing but the odds before.
        return 0.5
    return 1.0 / (1.0 - math.e * math.exp(log_p) * log_p)
