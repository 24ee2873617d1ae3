"""Findings of an archive: the culprits of its verdict, and what `watch` wrote of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.analyzer.read.archive.files import moment, number, part, whole
from lockstep.dashboard.shapes import Event, FindingRow, Severity, Span
from lockstep.dashboard.sources.archive.row import text

LONGEST_ID = 120


def of_verdict(
    run: str, verdict: Mapping[str, Any], ends: Mapping[int, float], until: float, *, open_: bool
) -> tuple[FindingRow, ...]:
    """A finding a culprit.

    Args:
        run: Id of the run.
        verdict: docs/reference/verdict.md.
        ends: Step -> unix seconds at which it began.
        until: Unix seconds of the run's end.
        open_: Whether the run goes on.
    """
    rows = []
    for number_, culprit in enumerate(verdict.get("culprits") or ()):
        since = moment(culprit.get("since"))
        to_step = whole(culprit.get("to_step"))
        end = ends.get(to_step, until) if to_step is not None else until
        rows.append(FindingRow(
            finding=f"{run[:LONGEST_ID]}-{number_}", severity=severity(culprit.get("tier")),
            open=open_ and to_step is None, run=run, node=text(culprit.get("node")),
            gpu=whole(culprit.get("gpu")), rank=whole(culprit.get("rank")),
            link=text(culprit.get("link")), cause=text(culprit.get("cause")) or "unknown",
            confidence=number(culprit.get("confidence")),
            slowdown=number(culprit.get("slowdown")), since=until if since is None else since,
            until=None if open_ and to_step is None else end,
            sentence=text(verdict.get("sentence")) if number_ == 0 else _words(culprit),
            place_confidence=number(culprit.get("place_confidence")), lasts=to_step is None,
        ))  # fmt: skip
    return tuple(rows)


def of_watch(run: str, folder: str, finding: Mapping[str, Any]) -> FindingRow:
    """The finding that an archive of `watch` is about (analyzer.findings.finding.finding_json)."""
    key = part(finding, "key")
    closed = moment(finding.get("closed"))
    since = moment(finding.get("onset")) or moment(finding.get("opened")) or 0.0
    return FindingRow(
        finding=folder[:LONGEST_ID], severity=severity(key.get("tier")), open=closed is None,
        run=run, node=text(key.get("node")), gpu=whole(key.get("gpu")),
        rank=whole(key.get("rank")), link=text(key.get("link")),
        cause=text(key.get("cause")) or "unknown", confidence=number(finding.get("confidence")),
        slowdown=number(finding.get("slowdown")), since=since, until=closed,
        sentence=text(finding.get("sentence")),
        place_confidence=number(finding.get("place_confidence")), kind=text(finding.get("kind")),
        scope=text(key.get("scope")), lost_seconds=number(finding.get("lost_seconds")),
        unit="rank" if finding.get("lost_unit") == "rank" else "GPU",
    )  # fmt: skip


def severity(tier: object) -> Severity:
    """CRITICAL for somebody on call, WARNING for the record."""
    return Severity.CRITICAL if tier == "page" else Severity.WARNING


def events(findings: Sequence[FindingRow]) -> list[Event]:
    """A stretch of time each."""
    return [
        Event(finding.since, finding.until, "finding", finding.severity,
              f"{who(finding)}: {finding.cause}", finding.run, finding.node, finding.gpu,
              finding.rank, finding.finding)
        for finding in findings
    ]  # fmt: skip


def who(finding: FindingRow) -> str:
    """Whom it is about, with the ids that are known."""
    if finding.link:
        return f"link {finding.link}"
    if finding.rank is not None:
        return f"rank {finding.rank} ({finding.node})" if finding.node else f"rank {finding.rank}"
    if finding.gpu is not None:
        return f"{finding.node} GPU {finding.gpu}"
    return finding.node or "the run"


def during(findings: Sequence[FindingRow], span: Span) -> list[FindingRow]:
    """Those that a span has a part of."""
    return [
        finding
        for finding in findings
        if finding.since <= span.end and (finding.until is None or finding.until >= span.start)
    ]


def newest_first(findings: Sequence[FindingRow]) -> tuple[FindingRow, ...]:
    """Open ones first, then the newest."""
    return tuple(sorted(findings, key=lambda each: (not each.open, -each.since)))


def _words(culprit: Mapping[str, Any]) -> str:
    """The first evidence: the verdict has one sentence for all its culprits."""
    facts = culprit.get("evidence")
    first = facts[0] if isinstance(facts, list) and facts else {}
    return text(first.get("text")) if isinstance(first, dict) else ""
