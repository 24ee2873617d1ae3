"""Scores of verdicts against labelled truth (docs/method/scoring.md), by cause and difficulty."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from lockstep.analyzer.shapes.wording import ENDS
from lockstep.collector.contract.words import Cause

HOURS_PER_MONTH = 730.0
CALIBRATION_BINS = 10
Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class Case:
    """One scored run.

    Attributes:
        truth: The injected fault as in truth.json (`rank`, `node`, `cause`), None = healthy.
        verdict: The verdict's JSON (docs/reference/verdict.md).
        delay_seconds: From onset to detection (lockstep.evaluation.scoring.replay), None = not
            found.
        node_hours: Nodes times hours that the run lasted; counts for healthy runs.
        baselines: Baseline -> the rank it accuses, the ranks, or None (`baseline_answers`).
        more: Faults injected beside `truth`, where several were.
    """

    truth: Mapping[str, Any] | None
    verdict: Mapping[str, Any]
    delay_seconds: float | None
    node_hours: float
    baselines: Mapping[str, int | Sequence[int] | None] = field(default_factory=dict)
    more: Sequence[Mapping[str, Any]] = ()

    @property
    def truths(self) -> tuple[Mapping[str, Any], ...]:
        """Every injected fault; none = healthy."""
        return () if self.truth is None else (self.truth, *self.more)


def score(cases: Sequence[Case]) -> dict[str, Any]:
    """Every figure with its counts and 95 % interval; the same under `baselines`.

    Rates are `{"value", "count", "of", "interval"}` with Wilson's interval, None for 0 of 0.
    Precision and recall count named culprits and injected faults as events. ECE is over named
    culprits: confidence against whether rank and cause were right.
    """
    names = list(dict.fromkeys(name for case in cases for name in case.baselines))
    return {
        **_figures(cases),
        "baselines": {name: _figures([_instead(case, name) for case in cases]) for name in names},
    }


def _figures(cases: Sequence[Case]) -> dict[str, Any]:
    injected = [case for case in cases if case.truth is not None]
    healthy = [case for case in cases if case.truth is None]
    named = sum(len(case.verdict["culprits"]) for case in cases)
    right = sum(_is_right(case, culprit) for case in injected for culprit in _culprits(case))
    faults = sum(len(case.truths) for case in injected)
    found = sum(is_found(fault, case.verdict) for case in injected for fault in case.truths)
    precision, recall = rate(right, named), rate(found, faults)
    top = [(case, _culprits(case)[0]) for case in injected if _culprits(case)]
    first = [(case, culprit) for case, culprit in top if _is_right(case, culprit)]
    cause = sum(_has_cause(case, culprit, [culprit["cause"]]) for case, culprit in first)
    three = sum(_has_cause(case, culprit, _three_causes(case)) for case, culprit in first)
    delays = [case.delay_seconds for case in injected if case.delay_seconds is not None]
    return {
        "injected": len(injected),
        "healthy": len(healthy),
        "precision": precision,
        "recall": recall,
        "f1": {"value": f1(right, named, found, faults)},
        "rank_top1": rate(len(first), len(injected)),
        "cause_top1": rate(cause, len(injected)),
        "cause_top3": rate(three, len(injected)),
        "ece": {"value": calibration_error(_confidences(cases)), "of": named},
        **_false_pages(healthy),
        "false_culprit_runs": rate(sum(bool(_culprits(case)) for case in healthy), len(healthy)),
        "delay_median_seconds": _quantile(delays, 0.5),
        "delay_p95_seconds": _quantile(delays, 0.95),
    }


def rate(count: int, of: int) -> dict[str, Any]:
    """A share with its counts and Wilson's 95 % interval (Wilson 1927)."""
    if of == 0:
        return {"value": None, "count": count, "of": of, "interval": None}
    share = count / of
    centre = (share + Z95**2 / (2 * of)) / (1 + Z95**2 / of)
    half = Z95 * np.sqrt(share * (1 - share) / of + Z95**2 / (4 * of**2)) / (1 + Z95**2 / of)
    low, high = max(0.0, float(centre - half)), min(1.0, float(centre + half))
    return {"value": share, "count": count, "of": of, "interval": [low, high]}


def f1(right: int, named: int, hits: int, injected: int) -> float | None:
    """Harmonic mean of precision and recall; None where one of them does not exist."""
    if not named or not injected:
        return None if not injected else 0.0
    precision, recall = right / named, hits / injected
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def calibration_error(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """Expected calibration error in equal bins of confidence; None without a named culprit."""
    if not pairs:
        return None
    confidence = np.array([pair[0] for pair in pairs])
    right = np.array([pair[1] for pair in pairs], dtype=float)
    place = np.minimum((confidence * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    error = 0.0
    for each in np.unique(place):
        inside = place == each
        error += inside.mean() * abs(confidence[inside].mean() - right[inside].mean())
    return float(error)


def poisson_upper(count: int) -> float:
    """One-sided 95 % upper bound of a Poisson mean; 3.0 for no event."""
    return float(gammaincinv(count + 1, 0.95))


def _culprits(case: Case) -> Sequence[Mapping[str, Any]]:
    culprits: Sequence[Mapping[str, Any]] = case.verdict["culprits"]
    return culprits


def is_right(fault: Mapping[str, Any], culprit: Mapping[str, Any]) -> bool:
    """The injected rank, or the node, a rank or the link of the injected node where that was hit.

    truth.json has an entry a rank; of a fault of a whole node they have the scope `node`, and a
    culprit of that scope is the place of each.
    """
    if culprit.get("scope") == "node" == fault.get("scope"):
        return bool(culprit["node"] == fault["node"])
    if culprit.get("scope") == "link":
        return fault.get("node") in (culprit["node"], *(culprit["link"] or "").split(ENDS))
    if fault.get("rank") is not None:
        return bool(culprit["rank"] == fault["rank"])
    return bool(culprit["node"] == fault.get("node"))


def is_found(fault: Mapping[str, Any], verdict: Mapping[str, Any]) -> bool:
    """Whether a verdict names the place of a fault."""
    return any(is_right(fault, culprit) for culprit in verdict["culprits"])


def _is_right(case: Case, culprit: Mapping[str, Any]) -> bool:
    return any(is_right(fault, culprit) for fault in case.truths)


def _has_cause(case: Case, culprit: Mapping[str, Any], causes: Sequence[str]) -> bool:
    return any(is_right(fault, culprit) and fault["cause"] in causes for fault in case.truths)


def _three_causes(case: Case) -> list[str]:
    others = [other["cause"] for other in case.verdict["alternatives"]]
    return [_culprits(case)[0]["cause"], *others][:3]


def _confidences(cases: Sequence[Case]) -> list[tuple[float, bool]]:
    return [
        (
            culprit["confidence"],
            _has_cause(case, culprit, [culprit["cause"]]),
        )
        for case in cases
        for culprit in _culprits(case)
        if culprit["confidence"] is not None
    ]


def _false_pages(healthy: Sequence[Case]) -> dict[str, Any]:
    """Page-tier culprits named in healthy runs, per node and month of 730 hours."""
    pages = sum(culprit["tier"] == "page" for case in healthy for culprit in _culprits(case))
    months = sum(case.node_hours for case in healthy) / HOURS_PER_MONTH
    value, upper = (pages / months, poisson_upper(pages) / months) if months else (None, None)
    return {
        "false_pages_per_node_month": {"value": value, "count": pages, "node_months": months},
        "false_pages_per_node_month_upper95": {"value": upper},
    }


def _quantile(delays: Sequence[float], share: float) -> dict[str, Any]:
    """A quantile with the distribution-free interval of its order statistics."""
    if not delays:
        return {"value": None, "of": 0, "interval": None}
    ordered = np.sort(delays)
    half = Z95 * np.sqrt(len(ordered) * share * (1 - share))
    low = int(np.clip(np.floor(len(ordered) * share - half), 0, len(ordered) - 1))
    high = int(np.clip(np.ceil(len(ordered) * share + half), 0, len(ordered) - 1))
    return {
        "value": float(np.quantile(ordered, share)),
        "of": len(ordered),
        "interval": [float(ordered[low]), float(ordered[high])],
    }


def _instead(case: Case, baseline: str) -> Case:
    """The case as if a baseline had answered: a page with full confidence, no cause."""
    answer = case.baselines.get(baseline)
    ranks = () if answer is None else (answer,) if isinstance(answer, int) else answer
    culprits = [
        {"rank": rank, "node": None, "cause": "unknown", "confidence": None, "tier": "page"}
        for rank in ranks
    ]
    verdict = {"culprits": culprits, "alternatives": []}
    return Case(case.truth, verdict, None, case.node_hours, more=case.more)


# Scores by cause: places and causes, macro accuracy, the recall of unknown, both faults of two.


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


# Scores by difficulty of simulated runs, and what verdicts say of healthy ones.

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
        "healthy_said": _percentages(healthy),
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
        "healthy_said": _percentages([case for case, whole in steady if whole]),
        "healthy_said_unseen": _percentages([case for case, whole in steady if not whole]),
        "slower_said": rate(told, len(slower)),
    }


def _percentages(cases: Sequence[Case]) -> dict[str, Any]:
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
