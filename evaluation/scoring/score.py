"""How good verdicts are against labelled truth (docs/method/scoring.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from lockstep.analyzer.shapes.wording import ENDS

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


def f1(right: int, named: int, found: int, injected: int) -> float | None:
    """Harmonic mean of precision and recall; None where one of them does not exist."""
    if not named or not injected:
        return None if not injected else 0.0
    precision, recall = right / named, found / injected
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
