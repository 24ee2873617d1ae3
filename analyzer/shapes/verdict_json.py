"""A Verdict as the JSON of docs/reference/verdict.md."""

import math
from collections.abc import Mapping
from typing import Any

from lockstep.analyzer.shapes.run import Culprit, Fact, Verdict

VERDICT_SCHEMA_VERSION = 1
WHAT_IF = ("method", "S", "S_t", "S_dp", "S_pp", "M_W", "M_S", "fixes")
"""Keys of docs/reference/verdict.md; those that need operations and a simulation are null without
them."""
DIGITS = 6
"""Significant; no measurement here has more."""
WHAT_IF_DIGITS = 9
"""What is calculated from a trace is to be the published value within 1e-6
(docs/method/what-if.md)."""


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict in the order of docs/reference/verdict.md; NaN and infinity become None.

    What follows `alternatives` are additions, in the order in which they came.
    """
    return {
        "schema_version": VERDICT_SCHEMA_VERSION,
        "run": verdict.run,
        "status": verdict.status,
        "sentence": verdict.sentence,
        "slowdown": _plain(verdict.slowdown),
        "slowdown_interval": _plain(verdict.slowdown_interval),
        "lost_gpu_hours": _plain(verdict.lost_gpu_hours),
        "coverage": _plain(verdict.coverage),
        "culprits": [_culprit(culprit) for culprit in verdict.culprits],
        "anomalies": _plain(verdict.anomalies),
        "hang": _plain(verdict.hang),
        "structure": _plain(verdict.structure),
        "what_if": {**dict.fromkeys(WHAT_IF), **_plain(verdict.what_if, WHAT_IF_DIGITS)},
        "rejected": [{"rank": rejected.rank, "why": rejected.why} for rejected in verdict.rejected],
        "alternatives": _plain(verdict.alternatives),
        "missing": list(verdict.missing),
        "provenance": list(verdict.provenance),
        "lost_money": _plain(verdict.lost_money),
        "lost_gpu_hours_interval": _plain(verdict.lost_gpu_hours_interval),
        "lost_money_interval": _plain(verdict.lost_money_interval),
        "lost_per_day": _plain(verdict.lost_per_day),
        "recurrence": _plain(verdict.recurrence),
        "history": _plain(verdict.history),
    }


def _culprit(culprit: Culprit) -> dict[str, Any]:
    return {
        "scope": culprit.scope,
        "rank": culprit.rank,
        "node": culprit.node,
        "gpu": culprit.gpu,
        "uuid": culprit.uuid,
        "dp": culprit.dp,
        "pp": culprit.pp,
        "tp": culprit.tp,
        "link": culprit.link,
        "from_step": culprit.from_step,
        "to_step": culprit.to_step,
        "since": culprit.since,
        "slowdown": _plain(culprit.slowdown),
        "cause": culprit.cause,
        "confidence": _plain(culprit.confidence),
        "tier": culprit.tier,
        "evidence": [_fact(fact) for fact in culprit.evidence],
        "slowdown_interval": _plain(culprit.slowdown_interval),
        "place_confidence": _plain(culprit.place_confidence),
        "known_to_step": culprit.known_to_step,
    }


def _fact(fact: Fact) -> dict[str, Any]:
    return {"for": fact.supports, "text": fact.text, "query": fact.query}


def _plain(value: Any, digits: int = DIGITS) -> Any:
    """JSON types only; numbers rounded to so many significant digits."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item, digits) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item, digits) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return value
