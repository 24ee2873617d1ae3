"""How certain it is that a finding is about the right place, whatever the cause there may be."""

import math
import sys

from lockstep.analyzer.shapes.run import STEPS_CERTAINTY, Finding, Grid
from lockstep.analyzer.stats.significance import TENTH_MORE
from lockstep.analyzer.stragglers.model.accepted import log_chance
from lockstep.analyzer.stragglers.model.candidate import CERTAIN
from lockstep.analyzer.stragglers.model.effects import LIKELIER

PAGE_SLOWDOWN = 1.0 + TENTH_MORE
"""Of the place, from which somebody is woken."""
LEAST_LOG = math.log(sys.float_info.min)
"""e to a smaller power is 0 to a computer."""


def place_confidence(finding: Finding, grid: Grid) -> float:
    """Probability of the place, 0 to CERTAIN.

    As whoever found it tells it: `details["place_confidence"]`, its posterior among the places that
    explain the same windows, or a hang's `certainty`. Else by how far it is beyond chance. No place
    is surer than the steps that nobody told of (docs/method/durations.md#steps).

    Args:
        finding: That accuses.
        grid: The run's windows.
    """
    told = finding.details.get("place_confidence", finding.details.get("certainty"))
    known = _beyond_chance(finding, len(grid.ranks)) if told is None else float(told)
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
