"""What is known of a run without its archive: a verdict in part, and it says so."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from collector.contract.metrics import RUN_COVERAGE
from dashboard.shapes import FindingRow, Severity
from dashboard.sources.prometheus import folders
from dashboard.sources.prometheus.asking import Asking
from dashboard.sources.prometheus.words import series

LAST = 60.0
"""Seconds before the end of a run in which a finding was open that ended with it."""
IN_PART = (
    "in part: made from what lockstep watch exports, without evidence; lockstep watch --out DIR"
    " keeps the whole verdict, and lockstep dashboard --findings DIR reads it"
)


def verdict(
    asking: Asking, where: Path | None, run: str, at: float, slowdown: float | None,
    found: tuple[FindingRow, ...],
) -> Mapping[str, Any] | None:  # fmt: skip
    """Of the newest archive of a finding, else of what `watch` exports; None = it says nothing.

    Args:
        asking: The Prometheus.
        where: Folder of the findings' archives, or None.
        run: The run.
        at: Unix seconds of the last that is known of it.
        slowdown: As `watch` exports it.
        found: Findings of the run.
    """
    archived = folders.verdict(where, run)
    if archived is not None:
        return archived
    query = f"max(last_over_time({series(RUN_COVERAGE.name, run=run)}[15m]))"
    coverage = asking.instant(query, at)
    named = [one for one in found if one.open or (one.until or at) >= at - LAST]
    if not coverage and slowdown is None and not named:
        return None
    paged = [one for one in named if one.severity is Severity.CRITICAL]
    return {
        "schema_version": 1, "run": run, "status": "degraded" if paged else "healthy",
        "sentence": _sentence(run, named, slowdown), "slowdown": slowdown,
        "slowdown_interval": None, "lost_gpu_hours": None,
        "coverage": coverage[0][1] if coverage else None,
        "culprits": [_culprit(one) for one in named], "anomalies": [], "hang": None,
        "structure": [], "what_if": {"method": "none", "fixes": []}, "rejected": [],
        "alternatives": [], "missing": [IN_PART], "provenance": [],
    }  # fmt: skip


def _sentence(run: str, named: list[FindingRow], slowdown: float | None) -> str:
    pace = "" if slowdown is None else f" Its steps take {slowdown:.2f}x their ideal time."
    if not named:
        return f"lockstep watch has no open finding of run {run}.{pace}"
    worst = min(named, key=lambda one: (one.severity is not Severity.CRITICAL, one.since))
    who = "the run" if worst.rank is None else f"rank {worst.rank}"
    place = f" ({worst.node})" if worst.node else ""
    more = f" and {len(named) - 1} more" if len(named) > 1 else ""
    return (
        f"lockstep watch names {who}{place}: {worst.cause}, since {_utc(worst.since)}{more}.{pace}"
    )


def _culprit(one: FindingRow) -> dict[str, Any]:
    scope = "link" if one.link else "rank" if one.rank is not None else "gpu"
    return {
        "scope": scope if one.link or one.rank is not None or one.gpu is not None else "node",
        "rank": one.rank, "node": one.node or None, "gpu": one.gpu, "uuid": None, "dp": None,
        "pp": None, "tp": None, "link": one.link or None, "from_step": None, "to_step": None,
        "since": _utc(one.since), "slowdown": one.slowdown, "cause": one.cause,
        "confidence": one.confidence,
        "tier": "page" if one.severity is Severity.CRITICAL else "record", "evidence": [],
    }  # fmt: skip


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
