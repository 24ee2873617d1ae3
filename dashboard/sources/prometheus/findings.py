"""Findings and verdicts: what `watch` keeps in its folder, and what it exported to Prometheus."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from lockstep.analyzer.findings.assessment import DEGRADED, HEALTHY, UNKNOWN
from lockstep.analyzer.findings.assessment import WORDS as REASONS
from lockstep.analyzer.findings.finding_lifecycle import moment_of, slug
from lockstep.analyzer.read.archive import files
from lockstep.analyzer.read.prometheus.promql import lasting, series
from lockstep.analyzer.shapes.labels import number, page_label
from lockstep.collector.contract.metrics import FINDING_ACTIVE, RUN_COVERAGE
from lockstep.dashboard.shapes import FindingRow, Floats, Severity, Span
from lockstep.dashboard.sources.grid import Grid, grid
from lockstep.dashboard.sources.prometheus import folders
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.runs import RunStatus

SEVERITIES = {"page": Severity.CRITICAL, "record": Severity.WARNING}
WORDS = ("run", "node", "rank", "gpu", "link", "cause", "tier", "kind")
HOUR = 3600.0
GAP = 300.0
"""Seconds in which nobody told, as when `watch` starts again, and which do not end a finding."""


def findings(
    asking: Asking, where: Path | None, span: Span, run: str, scrape: float, now: float
) -> tuple[FindingRow, ...]:
    """Those of a span, open ones first, then the newest.

    Args:
        asking: The Prometheus.
        where: Folder of the findings' archives, or None.
        span: In which they were open.
        run: Empty = of all.
        scrape: Seconds between two scrapes.
        now: Unix seconds.
    """
    within = grid(span, scrape, now=now)
    exported = list(_exported(asking, within, run, now))
    rows: list[FindingRow] = []
    for kept in folders.kept(where, run):
        row = _archived(kept)
        if row is None or row.since >= span.end or (row.until or now) < span.start:
            continue
        same = [other for other in exported if _same(other, row, within.step)]
        exported = [other for other in exported if other not in same]
        rows.append(row)
    return tuple(
        sorted([*rows, *exported], key=lambda one: (not one.open, -one.since, one.finding))
    )


def lost_gpu_hours(findings: Iterable[FindingRow], run: str) -> float | None:
    """What the findings of a run have cost so far, as watch counts it; None = it counts nothing.

    A verdict of an archive knows only what was lost until its finding was opened.
    """
    counted = [
        finding.lost_seconds
        for finding in findings
        if finding.run == run and finding.lost_seconds is not None
    ]
    return sum(counted) / HOUR if counted else None


def _exported(asking: Asking, within: Grid, run: str, now: float) -> Iterator[FindingRow]:
    words = series(FINDING_ACTIVE.name, **({"run": run} if run else {}))
    query = (
        f"max by ({', '.join(WORDS)}, exported_node) (max_over_time({words}"
        f"[{lasting(within.step)}]))"
    )
    for course in asking.over(query, within):
        for first, last in _stretches(course.values, max(2, round(GAP / within.step))):
            since = float(within.times[first]) - within.step
            until = float(within.times[last])
            # Prometheus repeats nothing beyond the step: the last point is now.
            still = last >= len(course.values) - 2 and until + 2 * within.step >= now
            yield _row(course.labels, since, None if still else until)


def _row(labels: Mapping[str, str], since: float, until: float | None) -> FindingRow:
    run, node = page_label(labels, "run"), page_label(labels, "node")
    rank, gpu = number(labels, "rank"), number(labels, "gpu")
    link, cause = labels.get("link", ""), labels.get("cause", "unknown")
    who = _who(run, node, rank, gpu, link)
    mark = slug("-".join(who.split()))
    return FindingRow(
        finding=f"{slug(run) if run else 'no-run'}/{moment_of(since)}-{mark}",
        severity=SEVERITIES.get(labels.get("tier", ""), Severity.WARNING), open=until is None,
        run=run, node=node, gpu=gpu, rank=rank, link=link, cause=cause, confidence=None,
        slowdown=None, since=since, until=until,
        sentence=f"lockstep watch names {who}: {cause}. Its archive is not at hand.",
        kind=labels.get("kind", ""),
    )  # fmt: skip


def _archived(kept: folders.Kept) -> FindingRow | None:
    key = kept.told.get("key")
    since = files.number(kept.told.get("onset")) or files.number(kept.told.get("opened"))
    if not isinstance(key, dict) or since is None:
        return None
    until = files.number(kept.told.get("closed"))

    def text(name: str) -> str:
        return str(key.get(name) or "")

    return FindingRow(
        finding=kept.name, severity=SEVERITIES.get(text("tier"), Severity.WARNING),
        open=until is None, run=text("run"), node=text("node"), gpu=_whole(key.get("gpu")),
        rank=_whole(key.get("rank")), link=text("link"), cause=text("cause") or "unknown",
        confidence=files.number(kept.told.get("confidence")),
        slowdown=files.number(kept.told.get("slowdown")), since=since, until=until,
        sentence=str(kept.told.get("sentence") or ""),
        place_confidence=files.number(kept.told.get("place_confidence")),
        kind=str(kept.told.get("kind") or ""), scope=text("scope"),
        lost_seconds=files.number(kept.told.get("lost_seconds")),
        unit="rank" if kept.told.get("lost_unit") == "rank" else "GPU",
    )  # fmt: skip


def _same(finding: FindingRow, kept: FindingRow, step: float) -> bool:
    """Whether the exported row is the archived finding: of the same, while that was open."""
    mine = (finding.run, finding.node, finding.rank, finding.gpu, finding.link)
    if mine != (kept.run, kept.node, kept.rank, kept.gpu, kept.link):
        return False
    begins_before = kept.until is None or finding.since <= kept.until + step
    return begins_before and (finding.until is None or finding.until >= kept.since - step)


def _stretches(values: Floats, most_gap: int) -> Iterator[tuple[int, int]]:
    """First and last place of each stretch in which something was told, small gaps bridged."""
    moments = np.flatnonzero(np.isfinite(values) & (values > 0))
    if moments.size:
        for part in np.split(moments, np.flatnonzero(np.diff(moments) > most_gap) + 1):
            yield int(part[0]), int(part[-1])


def _who(run: str, node: str, rank: int | None, gpu: int | None, link: str) -> str:
    if link:
        return f"link {link}"
    if rank is not None:
        return f"rank {rank}"
    if gpu is not None:
        return f"GPU {gpu} of {node}"
    return node or f"run {run}"


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# What is known of a run without its archive: a verdict in part, and it says so.

LAST = 60.0
"""Seconds before the end of a run in which a finding was open that ended with it."""
IN_PART = (
    "in part: made from what lockstep watch exports, without evidence; lockstep watch --out DIR"
    " keeps the whole verdict, and lockstep dashboard --findings DIR reads it"
)


def verdict(
    asking: Asking, where: Path | None, run: str, at: float, slowdown: float | None,
    findings: tuple[FindingRow, ...], judged: RunStatus | None, *, ended: bool,
) -> Mapping[str, Any] | None:  # fmt: skip
    """Of the newest archive of a finding, else of what `watch` exports; None = it says nothing.

    Args:
        asking: The Prometheus.
        where: Folder of the findings' archives, or None.
        run: The run.
        at: Unix seconds of the last that is known of it.
        slowdown: As `watch` exports it.
        findings: Findings of the run.
        judged: What `watch` says of it then; None = nothing.
        ended: Whether it has ended since.
    """
    archived = folders.verdict(where, run)
    if archived is not None:
        return archived
    query = f"max(last_over_time({series(RUN_COVERAGE.name, run=run)}[15m]))"
    coverage = asking.instant(query, at)
    named = [finding for finding in findings if finding.open or (finding.until or at) >= at - LAST]
    if not coverage and slowdown is None and not named and judged is None:
        return None
    status, sentence = said(run, named, judged, slowdown, ended=ended)
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
    run: str, named: Sequence[FindingRow], status: RunStatus | None, slowdown: float | None, *,
    ended: bool,
) -> tuple[str, str]:  # fmt: skip
    """Status and sentence of a run: what `watch` does not say is not known.

    Args:
        run: Its id.
        named: Its findings at that time.
        status: What `watch` says of it then; None = nothing.
        slowdown: As `watch` exports it.
        ended: Whether it has ended since: how, Prometheus does not know.
    """
    if named:
        return DEGRADED, _named(named, slowdown)
    pace = "" if slowdown is None else f" Its steps take {slowdown:.2f}x their ideal time."
    if status is not None and status.status == DEGRADED:
        return DEGRADED, f"lockstep watch says that run {run} is held back.{pace}"
    if status is None:
        why = "lockstep watch says nothing of it at this time; Data health says whether it runs"
    elif status.status != HEALTHY:
        why = REASONS.get(status.reason, "lockstep watch does not say why")
    elif ended:
        why = "lockstep watch found nothing while it ran, and how it ended is unknown here"
    else:
        return HEALTHY, f"lockstep watch looked at all ranks of run {run} and found nothing.{pace}"
    return UNKNOWN, f"Whether anything holds run {run} back is unknown: {why}."


def _named(named: Sequence[FindingRow], slowdown: float | None) -> str:
    pace = "" if slowdown is None else f" Its steps take {slowdown:.2f}x their ideal time."
    worst = min(named, key=lambda one: (one.severity is not Severity.CRITICAL, one.since))
    who = "the run" if worst.rank is None else f"rank {worst.rank}"
    place = f" ({worst.node})" if worst.node else ""
    more = f" and {len(named) - 1} more" if len(named) > 1 else ""
    return (
        f"lockstep watch names {who}{place}: {worst.cause}, since {_utc(worst.since)}{more}.{pace}"
    )


def _culprit(finding: FindingRow) -> dict[str, Any]:
    scope = "link" if finding.link else "rank" if finding.rank is not None else "gpu"
    if not finding.link and finding.rank is None and finding.gpu is None:
        scope = "node"
    return {
        "scope": scope, "rank": finding.rank, "node": finding.node or None, "gpu": finding.gpu,
        "uuid": None, "dp": None, "pp": None, "tp": None, "link": finding.link or None,
        "from_step": None, "to_step": None,
        "since": _utc(finding.since), "slowdown": finding.slowdown, "cause": finding.cause,
        "confidence": finding.confidence,
        "tier": "page" if finding.severity is Severity.CRITICAL else "record", "evidence": [],
        "place_confidence": finding.place_confidence,
    }  # fmt: skip


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
