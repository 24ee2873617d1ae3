"""Other software than before, or than the peers have: driver, firmware or kernel."""

import numpy as np

from analyzer import symptoms
from analyzer.cause_spec import Action, CauseSpec
from analyzer.run import Evidence, Fact, Finding, FloatGrid, Grid
from analyzer.slowness.before_after import (
    THROTTLED,
    clock_event,
    column_of,
    gpu_words,
    query,
    signal_before_after,
    throttle_rate,
)
from analyzer.symptoms.series import spans
from analyzer.symptoms.software import Change, changes, ranks_of_node, software
from analyzer.symptoms.software import query as software_query
from analyzer.symptoms.weigh import other_symptom_log_odds, symptom_log_odds
from collector.contract import metrics
from collector.contract.words import CLOCK_EVENT_REASONS, Cause

EVERYWHERE = 5.0
NO_ONSET = -1.0
"""A node that always differed may have been slow for another reason: no onset ties the two."""
HELD_BACK = 0.02
"""As causes.host_cpu."""
AS_FAST = 0.5
"""Ranks on the same software that are slower by less than this share of the rank's slowdown."""


def evidence(grid: Grid, finding: Finding) -> Evidence:
    """Strong with a change at the onset; fair for a node that always differed."""
    if finding.kind == "structure":
        return _of_run(grid, finding)
    if finding.kind != "slow":
        return Evidence(Cause.SOFTWARE, -8.0)
    facts: list[Fact] = []
    missing: list[str] = []
    symptom = software(grid, finding)
    odds = symptom_log_odds(symptom, "versions of the driver and the kernel", facts, missing)
    if symptom is not None and symptom.seen and symptom.with_onset is None:
        odds += NO_ONSET
    if symptom is not None and symptom.explains:
        odds += _others_explain(grid, finding, facts) + _mates(grid, finding, facts)
    return Evidence(Cause.SOFTWARE, odds, tuple(facts), tuple(missing))


def _of_run(grid: Grid, finding: Finding) -> Evidence:
    """All ranks slowed alike: did all nodes get other software as it began?"""
    if not grid.versions:
        missing = ("versions of the driver and the kernel",)
        return Evidence(Cause.SOFTWARE, -2.5, (), missing)
    found = changes(grid, finding)
    facts = tuple(
        Fact(_explains(each), each.text + _when(each), software_query(each.what)) for each in found
    )
    if any(_explains(each) for each in found):
        return Evidence(Cause.SOFTWARE, EVERYWHERE, facts)
    return Evidence(Cause.SOFTWARE, -5.0, facts)


def _explains(change: Change) -> bool:
    return change.everywhere and change.with_onset


def _when(change: Change) -> str:
    if change.with_onset:
        return " as the slowdown began"
    return f" {abs(change.late):.0f} s {'after' if change.late > 0 else 'before'} it began"


def _others_explain(grid: Grid, finding: Finding, facts: list[Fact]) -> float:
    """What tells of another cause."""
    odds = 0.0
    rate = throttle_rate(grid, finding, CLOCK_EVENT_REASONS)
    if rate is not None and rate.risen >= THROTTLED:
        text = f"{gpu_words(grid, finding.rank)} was throttled {rate.during:.0%} of the time"
        facts.append(Fact(False, text, query(grid, finding, clock_event(CLOCK_EVENT_REASONS[0]))))
        odds -= 3.0
    held = signal_before_after(grid, finding, metrics.RANK_THROTTLED.series())
    if held is not None and held.risen >= HELD_BACK:
        text = f"its CPU quota held the rank back {held.during:.0%} of the time"
        facts.append(Fact(False, text, query(grid, finding, metrics.RANK_THROTTLED.series())))
        odds -= 3.0
    return odds + sum(
        other_symptom_log_odds(symptom, facts) for symptom in symptoms.of_gpu(grid, finding)
    )


def _mates(grid: Grid, finding: Finding, facts: list[Fact]) -> float:
    """Ranks that run the same software and are not slow."""
    column, others = column_of(grid, finding.rank), ranks_of_node(grid, finding)
    if column is None or not others.size:
        return 0.0
    during, before = spans(grid, finding)
    own = grid.time["own"]
    here = grid.ranks[column]
    if finding.first > 0 and before.any():
        normal = _median(own[np.ix_(before, others)])
    else:
        away = [c for c, i in enumerate(grid.ranks) if i.node != here.node and i.pp == here.pp]
        normal = _median(own[np.ix_(during, np.array(away, dtype=int))])
    grew = _median(own[np.ix_(during, others)]) / normal - 1.0
    if not np.isfinite(grew) or grew > AS_FAST * (finding.slowdown - 1.0):
        return 0.0
    text = f"{len(others)} other ranks of {here.node} run the same software and are not slow"
    facts.append(Fact(False, text, "own_seconds of steps.parquet by rank"))
    return -5.0


def _median(cells: FloatGrid) -> float:
    there = cells[np.isfinite(cells)]
    return float(np.median(there)) if there.size else float("nan")


ADVICE = (
    Action("verify", "Compare driver, firmware and kernel with a node that is not slow.",
           "ssh {node} 'uname -r; nvidia-smi"
           " --query-gpu=driver_version,vbios_version --format=csv'"),
    Action("mitigate", "Bring the node to the image of its peers, or the peers back to the"
           " version that was faster."),
    Action("prevent", "Lock a baseline and compare a run before and after every update."),
)  # fmt: skip

SPEC = CauseSpec(
    cause=Cause.SOFTWARE,
    evidence=evidence,
    must_see=(
        "A version of the info series that changed at the onset, where the slowdown is. On all"
        " nodes for a run that is slower as a whole; on the slow rank's node and not on its"
        " peers', or differing there all along, for a rank."
    ),
    must_not_see=(
        "Throttling, errors of the GPU, a CPU quota at work, or ranks on the same node that are"
        " as fast as before."
    ),
    words="its node runs other software than its peers",
    node_words="it runs other software than its peers",
    advice=ADVICE,
    advice_without_gpu=(
        Action("verify", "Compare firmware and kernel with a node that is not slow.",
               "ssh {node} uname -r"),
        *ADVICE[1:],
    ),
    runbook="LockstepRunSlowVsBaseline",
)  # fmt: skip
