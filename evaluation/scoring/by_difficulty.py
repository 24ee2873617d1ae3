"""Scores by what a simulated run is: each difficulty's runs, and what is said of healthy ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.evaluation.scoring.by_cause import score_causes
from lockstep.evaluation.scoring.score import Case, is_found, is_right, rate

SLOW = 1.10
"""Own time over before from which a culprit is one that must be found; less is told apart."""
NONE = "none"


def score_difficulties(runs: Sequence[tuple[Case, Sequence[str]]]) -> dict[str, Any]:
    """Figures of all runs, and `by_difficulty`: name -> figures of the runs that have it.

    Args:
        runs: Each with the names of its difficulties.
    """
    names = sorted({name for _, mine in runs for name in mine})
    table = {name: figures([case for case, mine in runs if name in mine]) for name in names}
    plain = [case for case, mine in runs if not mine]
    if names and plain:
        table[NONE] = figures(plain)
    return {"slow": figures([case for case, _ in runs]), "by_difficulty": table}


def figures(cases: Sequence[Case]) -> dict[str, Any]:
    """`precision` of all that was named; `recall`, `cause_macro` of culprits that are slow enough.

    `recall_all` counts every culprit; `both_named` runs with two that are; `healthy_named` healthy
    runs in which anybody is, `healthy_said` those called so of all, whatever is known of them
    (`score_healthy` tells them apart).
    """
    named = [(case, each) for case in cases for each in case.verdict["culprits"]]
    right = sum(any(is_right(fault, each) for fault in case.truths) for case, each in named)
    faults = [(case, fault) for case in cases for fault in case.truths]
    slow = [pair for pair in faults if is_slow(pair[1])]
    healthy = [case for case in cases if case.truth is None]
    pairs = [case for case in cases if len(case.truths) == 2 and all(map(is_slow, case.truths))]
    both = sum(all(is_found(fault, case.verdict) for fault in case.truths) for case in pairs)
    return {
        "runs": len(cases),
        "precision": rate(right, len(named)),
        "recall": _found(slow),
        "recall_all": _found(faults),
        "cause_macro": score_causes([_only_slow(case) for case in cases])["cause_macro"],
        "both_named": rate(both, len(pairs)),
        "healthy_named": rate(sum(bool(c.verdict["culprits"]) for c in healthy), len(healthy)),
        "healthy_said": _said(healthy),
    }


def score_healthy(runs: Sequence[tuple[Case, bool, bool]]) -> dict[str, Any]:
    """What is said of runs without a fault, of each kind apart.

    `healthy_said` is over those whose telemetry is whole, `healthy_said_unseen` over those of which
    a part was not seen: there "unknown" may be all that can be said. Runs that became slower as a
    whole are in neither, as they are not well: `slower_said` counts those that are told as
    degraded, and nobody in them is named.

    Args:
        runs: Each with whether it became slower as a whole, and whether its telemetry is whole.
    """
    healthy = [each for each in runs if each[0].truth is None]
    steady = [(case, whole) for case, slower, whole in healthy if not slower]
    slower = [case for case, slower, _ in healthy if slower]
    told = sum(c.verdict["status"] == "degraded" and not c.verdict["culprits"] for c in slower)
    return {
        "healthy_said": _said([case for case, whole in steady if whole]),
        "healthy_said_unseen": _said([case for case, whole in steady if not whole]),
        "slower_said": rate(told, len(slower)),
    }


def _said(cases: Sequence[Case]) -> dict[str, Any]:
    return rate(sum(case.verdict["status"] == "healthy" for case in cases), len(cases))


def is_slow(fault: Mapping[str, Any]) -> bool:
    """Whether it slows by 10 % or more, or stops; of network faults the run's step counts."""
    size = fault["factor_measured"]
    if size is None:
        size = fault["factor_intended"]
    return size is None or bool(size >= SLOW)


def _found(faults: Sequence[tuple[Case, Mapping[str, Any]]]) -> dict[str, Any]:
    return rate(sum(is_found(fault, case.verdict) for case, fault in faults), len(faults))


def _only_slow(case: Case) -> Case:
    slow = [fault for fault in case.truths if is_slow(fault)]
    first = slow[0] if slow else None
    return Case(first, case.verdict, None, case.node_hours, more=tuple(slow[1:]))
