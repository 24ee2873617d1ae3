"""What is known of a run without its archive: a verdict in part, and it says so."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lockstep.analyzer.findings.assessment import DEGRADED, HEALTHY, UNKNOWN, WORDS
from lockstep.analyzer.read.prometheus.questions import run_coverage
from lockstep.dashboard.shapes import FindingRow, Severity
from lockstep.dashboard.sources.prometheus import folders
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.runs import RunStatus

LAST = 60.0
"""Seconds before the end of a run in which a finding was open that ended with it."""
IN_PART = (
    "in part: made from what lockstep watch exports, without evidence; lockstep watch --out DIR"
    " keeps the whole verdict, and lockstep dashboard --findings DIR reads it"
)


def verdict(
    asking: Asking, where: Path | None, run: str, at: float, slowdown: float | None,
    found: tuple[FindingRow, ...], told: RunStatus | None, *, ended: bool,
) -> Mapping[str, Any] | None:  # fmt: skip
    """Of the newest archive of a finding, else of what `watch` exports; None = it says nothing.

    Args:
        asking: The Prometheus.
        where: Folder of the findings' archives, or None.
        run: The run.
        at: Unix seconds of the last that is known of it.
        slowdown: As `watch` exports it.
        found: Findings of the run.
        told: What `watch` says of it then; None = nothing.
        ended: Whether it has ended since.
    """
    archived = folders.verdict(where, run)
    if archived is not None:
        return archived
    coverage = asking.instant(run_coverage(run), at)
    named = [one for one in found if one.open or (one.until or at) >= at - LAST]
    if not coverage and slowdown is None and not named and told is None:
        return None
    status, sentence = said(run, named, told, slowdown, ended=ended)
    return {
        "schema_version": 1, "run": run, "status": status, "sentence": sentence,
        "slowdown": slowdown,
        "slowdown_interval": None, "lost_gpu_hours": None,
        "coverage": coverage[0][1] if coverage else None,
        "culprits": [_culprit(one) for one in named], "anomalies": [], "hang": None,
        "structure": [], "what_if": {"method": "none", "fixes": []}, "rejected": [],
        "alternatives": [], "missing": [IN_PART], "provenance": [],
    }  # fmt: skip


def said(
    run: str, named: Sequence[FindingRow], told: RunStatus | None, slowdown: float | None, *,
    ended: bool,
) -> tuple[str, str]:  # fmt: skip
    """Status and sentence of a run: what `watch` does not say is not known.

    Args:
        run: Its id.
        named: Its findings at that time.
        told: What `watch` says of it then; None = nothing.
        slowdown: As `watch` exports it.
        ended: Whether it has ended since: how, Prometheus does not know.
    """
    if named:
        return DEGRADED, _named(named, slowdown)
    pace = "" if slowdown is None else f" Its steps take {slowdown:.2f}x their ideal time."
    if told is not None and told.status == DEGRADED:
        return DEGRADED, f"lockstep watch says that run {run} is held back.{pace}"
    if told is None:
        why = "lockstep watch says nothing of it at this time; Data health says whether it runs"
    elif told.status != HEALTHY:
        why = WORDS.get(told.reason, "lockstep watch does not say why")
    elif ended:
        why = "lockstep watch found nothing while it ran, and how it ended is told nowhere here"
    else:
        return HEALTHY, f"lockstep watch looked at all ranks of run {run} and found nothing.{pace}"
    return UNKNOWN, f"Whether anything holds run {run} back is not known: {why}."


def _named(named: Sequence[FindingRow], slowdown: float | None) -> str:
    pace = "" if slowdown is None else f" Its steps take {slowdown:.2f}x their ideal time."
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
        "place_confidence": one.place_confidence,
    }  # fmt: skip


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
