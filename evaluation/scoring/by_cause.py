"""Scores by cause: who was found and why, macro accuracy, the recall of unknown, both of two."""

from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.collector.contract.words import Cause
from lockstep.evaluation.scoring.score import Z95, Case, is_found, is_right, rate


def score_causes(cases: Sequence[Case]) -> dict[str, Any]:
    """Figures beside those of `lockstep.evaluation.scoring.score.score`.

    `cause_macro` is the `macro` over causes of `cause` (the fault's place was named with its cause,
    of all faults of that cause); `unknown` is a class of its own and not among them.
    `unknown_recall` is over faults that the telemetry cannot tell: whoever found the place said
    "unknown", and nobody else named a cause. `both_named` is over runs with two faults.
    """
    faults = [(case, fault) for case in cases for fault in case.truths]
    by_cause: dict[str, list[tuple[Case, Mapping[str, Any]]]] = {}
    for case, fault in faults:
        by_cause.setdefault(fault["cause"], []).append((case, fault))
    unknown = by_cause.pop(Cause.UNKNOWN.value, [])
    table = {cause: _row(mine) for cause, mine in sorted(by_cause.items())}
    pairs = [case for case in cases if len(case.truths) == 2]
    found = [pair for pair in unknown if is_found(pair[1], pair[0].verdict)]
    honest = sum(_said(case, fault) == Cause.UNKNOWN for case, fault in found)
    both = sum(all(is_found(fault, case.verdict) for fault in case.truths) for case in pairs)
    return {
        "cause_macro": macro([row["cause"] for row in table.values()]),
        "unknown_recall": rate(honest, len(unknown)),
        "unknown_named": rate(honest, len(found)),
        "both_named": rate(both, len(pairs)),
        "by_cause": table,
    }


def macro(rates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of several rates (`lockstep.evaluation.scoring.score.rate`), each counting alike.

    Its 95 % interval adds up their variances, of two more successes and two more failures each
    (Agresti and Coull 1998): a rate of 3 of 3 is not certain.
    """
    if not rates:
        return {"value": None, "causes": 0, "interval": None}
    value = sum(one["value"] for one in rates) / len(rates)
    shares = [((one["count"] + 2) / (one["of"] + 4), one["of"] + 4) for one in rates]
    half = Z95 * sum(share * (1 - share) / of for share, of in shares) ** 0.5 / len(rates)
    interval = [max(0.0, value - half), min(1.0, value + half)]
    return {"value": value, "causes": len(rates), "interval": interval}


def _row(mine: Sequence[tuple[Case, Mapping[str, Any]]]) -> dict[str, Any]:
    found = [pair for pair in mine if is_found(pair[1], pair[0].verdict)]
    said = [_said(case, fault) for case, fault in found]
    right = sum(each == fault["cause"] for each, (_, fault) in zip(said, found, strict=True))
    wrong: dict[str, int] = {}
    for each, (_, fault) in zip(said, found, strict=True):
        if each != fault["cause"]:
            wrong[each] = wrong.get(each, 0) + 1
    return {
        "found": rate(len(found), len(mine)),
        "cause": rate(right, len(mine)),
        "cause_of_found": rate(right, len(found)),
        "instead": wrong,
    }


def _said(case: Case, fault: Mapping[str, Any]) -> str:
    """The cause that the verdict gives for a fault that it found."""
    named = [each["cause"] for each in case.verdict["culprits"] if is_right(fault, each)]
    return str(fault["cause"] if fault["cause"] in named else named[0])
