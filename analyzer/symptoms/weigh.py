"""A symptom as log odds for the cause that it is the mark of, with its facts."""

from analyzer.run import Fact, Finding, Grid
from analyzer.slowness.before_after import compute_share
from analyzer.symptoms.shape import ALIKE, UNLIKE, Symptom

GRAVE = 6.0
SLIGHT = 3.5
SILENT = -5.0
"""The part answers and tells of no trouble."""
NOT_TOLD = -2.5
"""Nobody answers for the part: its troubles are rare, and nothing speaks for one."""
ANOTHER_TIME = -5.0
MOSTLY_COMPUTE = 0.5
"""Share of the excess in forward, backward and optimizer of a GPU that computes slowly."""


def symptom_log_odds(
    symptom: Symptom | None, part: str, facts: list[Fact], missing: list[str]
) -> float:
    """Log odds of a cause by the symptom that it must show.

    Args:
        symptom: Of the finding's GPU; None = nobody answered.
        part: What did not answer then, in words.
        facts: Gets what was seen.
        missing: Gets `part` if nobody answered.
    """
    if symptom is None:
        missing.append(part)
        return NOT_TOLD
    facts.append(Fact(symptom.explains, f"{symptom.text}{_when(symptom)}", symptom.query))
    if not symptom.seen:
        return SILENT
    odds = GRAVE if symptom.grave else SLIGHT
    if symptom.with_onset is False:
        return odds + ANOTHER_TIME
    if symptom.follows >= ALIKE:
        text = f"own time follows it (Spearman's rho {symptom.follows:.2f} over the steps)"
        facts.append(Fact(True, text, symptom.query))
        odds += 1.0
    elif symptom.follows < UNLIKE:
        text = f"own time does not follow it (Spearman's rho {symptom.follows:.2f} over the steps)"
        facts.append(Fact(False, text, symptom.query))
        odds -= 2.0
    return odds


def other_symptom_log_odds(symptom: Symptom | None, facts: list[Fact]) -> float:
    """Log odds against a cause where the symptom of another one explains the finding."""
    if symptom is None or not symptom.explains:
        return 0.0
    facts.append(Fact(False, symptom.text, symptom.query))
    return -3.0


def outside_compute(grid: Grid, finding: Finding, facts: list[Fact]) -> float:
    """Log odds against what slows computing, where the program's phases show it elsewhere."""
    share = compute_share(grid, finding)
    if share is None or share >= MOSTLY_COMPUTE:
        return 0.0
    text = f"only {share:.0%} of the excess is in the compute phases"
    facts.append(Fact(False, text, "phase shares of the finding"))
    return -4.0


def _when(symptom: Symptom) -> str:
    if not symptom.seen or symptom.with_onset is None:
        return ""
    if symptom.with_onset:
        return ", since the slowdown began"
    side = "after" if symptom.began > 0 else "before"
    return f", but that began {abs(symptom.began):.0f} s {side} the slowdown"
