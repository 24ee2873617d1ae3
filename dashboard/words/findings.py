"""Findings and events as tables with links, and a finding in a few lines."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pandas as pd

from lockstep.analyzer.causes.registry import CAUSE_WORDS
from lockstep.analyzer.findings.finding import Kind, Tier, WatchFinding, Who
from lockstep.analyzer.findings.headline import first_action
from lockstep.analyzer.shapes.wording import certainty, hours, ratio
from lockstep.collector.contract.words import Cause
from lockstep.dashboard.address import Location, link
from lockstep.dashboard.palette import severity_word
from lockstep.dashboard.shapes import Event, FindingRow, RunRow, Severity, Span
from lockstep.dashboard.words.said import BADNESS, HOUR, duration

FINDING_LINKS = ("why", "node page", "run page")
SURE = ("sure of place", "sure of cause")
FINDINGS = ("node", "GPU", "rank", "cause", "slowdown", "since (UTC)", "severity", "state", *SURE,
            "run", "what", *FINDING_LINKS)  # fmt: skip
"""Who and why first: that is what is read at night; the links of a row are at its end."""
EVENTS = ("time (UTC)", "severity", "what", "where", "kind")
BEFORE_SECONDS, AFTER_SECONDS = 600.0, 1800.0
"""Of a finding's onset that a link shows, as far as the run was there."""


def worst_first(findings: Sequence[FindingRow]) -> list[FindingRow]:
    """Open ones first, then by severity, slowdown and how sure the place is, then the newest."""
    return sorted(
        findings,
        key=lambda one: (
            not one.open, -BADNESS.index(one.severity), -_cost(one),
            -(one.place_confidence or one.confidence or 0.0), -one.since,
        ),
    )  # fmt: skip


def findings(findings: Sequence[FindingRow], runs: Mapping[str, RunRow]) -> pd.DataFrame:
    """One row a finding, in the order given.

    Args:
        findings: What to show.
        runs: By id; a link's range stays within its run.

    Returns:
        Columns `FINDINGS`; those of `FINDING_LINKS` hold addresses, empty where they lead nowhere.
    """
    rows = []
    for finding in findings:
        row = runs.get(finding.run)
        location = around(finding, row.span if row else None)
        node = link("node", location, gpu=None, rank=None) if finding.node else ""
        rows.append((
            finding.node or finding.link, finding.gpu, finding.rank, finding.cause,
            finding.slowdown, _moment(finding.since),
            severity_word(finding.severity), "open" if finding.open else "ended",
            *(None if sure is None else round(sure, 2)
              for sure in (finding.place_confidence, finding.confidence)),
            finding.run, finding.sentence,
            link("straggler", location, rank=None) if finding.run else "", node,
            link("run", location, rank=None) if finding.run else "",
        ))  # fmt: skip
    frame = pd.DataFrame(rows, columns=list(FINDINGS))
    return frame.astype(
        {"GPU": "Int64", "rank": "Int64"} | dict.fromkeys(("slowdown", *SURE), "float64")
    )


def around(finding: FindingRow, span: Span | None) -> Location:
    """Where a finding is, with a range around its onset.

    Args:
        finding: The finding.
        span: Of its run; None = not known.
    """
    start, end = finding.since - BEFORE_SECONDS, finding.since + AFTER_SECONDS
    if span is not None and span.start <= finding.since <= span.end:
        start, end = max(start, span.start), min(end, span.end)
    return Location(
        run=finding.run, node=finding.node, gpu=finding.gpu, rank=finding.rank,
        finding=finding.finding, since=str(int(max(start, 0.0) * 1000)),
        until=str(int(end * 1000) + 1),
    )  # fmt: skip


def events(events: Sequence[Event]) -> pd.DataFrame:
    """One row an event, in the order given; columns `EVENTS`."""
    rows = [
        (_moment(event.at), severity_word(event.severity), event.text, _where(event), event.kind)
        for event in events
    ]
    return pd.DataFrame(rows, columns=list(EVENTS))


def _cost(finding: FindingRow) -> float:
    """Slowdown; what stops a run costs more than what slows it."""
    return math.inf if finding.cause in (Cause.FREEZE, Cause.CRASH) else finding.slowdown or 0.0


def _where(event: Event) -> str:
    gpu = "" if event.gpu is None else f"GPU {event.gpu}"
    rank = "" if event.rank is None else f"rank {event.rank}"
    return ", ".join(part for part in (event.node, gpu, rank) if part) or event.run


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


# Under a finding's sentence: since when, how much, how sure, and what to do first.

KINDS = frozenset(Kind)
STOPS = frozenset((Cause.CRASH, Cause.FREEZE, Cause.SOFTWARE))
"""Causes of a run that stands, where nobody told a slowdown."""


def since(finding: FindingRow, now: float) -> str:
    """When it began and for how long it went on, or goes on."""
    began = datetime.fromtimestamp(finding.since, UTC)
    ended = now if finding.until is None else finding.until
    until = "open" if finding.open else "ended"
    return (
        f"{began:%Y-%m-%d %H:%M:%S} UTC, {until} after {duration(max(0.0, ended - finding.since))}"
    )


def cost(finding: FindingRow, run: RunRow | None) -> str:
    """How much it is slower, what that does to the run's steps, and what is lost so far."""
    parts = [] if finding.slowdown is None else [f"{ratio(finding.slowdown)} its own time"]
    if run is not None and run.slowdown is not None:
        parts.append(f"the run's steps {ratio(run.slowdown)}")
    so_far = " so far" if finding.open else ""
    if finding.lost_seconds is not None:  # as its alert says
        parts.append(f"{hours(finding.lost_seconds / HOUR, finding.unit)} lost{so_far}")
    elif run is not None and run.lost_gpu_hours is not None:
        lost = run.lost_gpu_hours
        spent = f"{lost:,.3g} GPU-h" if lost >= 1 else f"{lost * HOUR:,.3g} GPU-s"
        parts.append(f"{spent} lost{so_far}")
    return ", ".join(parts) if parts else "unknown"


def why(finding: FindingRow) -> str:
    """The cause and how sure it is; that nobody knows it is said so."""
    if finding.cause == Cause.UNKNOWN:
        return "unknown"
    words = CAUSE_WORDS.get(finding.cause, finding.cause)
    return words if finding.confidence is None else f"{words}, {certainty(finding.confidence)}"


def to_do(finding: FindingRow) -> tuple[str, str]:
    """What to do first, and the command for it or nothing: the words of the alert.

    A run that ended with its culprit leaves a machine that is as suspect as before.
    """
    return first_action(_as_watched(finding))


def _as_watched(finding: FindingRow) -> WatchFinding:
    page = finding.severity is Severity.CRITICAL
    return WatchFinding(
        who=Who(finding.run, finding.node or None, finding.rank, finding.gpu, finding.link or None),
        kind=_kind(finding), scope=finding.scope or _scope(finding), attempt=None,
        cause=finding.cause, tier=Tier.PAGE if page else Tier.RECORD,
        confidence=finding.confidence or 0.0,
        slowdown=finding.slowdown, onset=finding.since, first_seen=finding.since,
        opened=finding.since, seen=finding.since,
        closed=None if finding.lasts else finding.until, sentence=finding.sentence,
        facts=(), folder="", place_confidence=finding.place_confidence,
        lost_seconds=finding.lost_seconds, unit=finding.unit,
    )  # fmt: skip


def _kind(finding: FindingRow) -> Kind:
    """As it was confirmed; a guess where its source does not tell."""
    if finding.kind in KINDS:
        return Kind(finding.kind)
    return Kind.STOP if finding.slowdown is None and finding.cause in STOPS else Kind.SLOW


def _scope(finding: FindingRow) -> str:
    if finding.link:
        return "link"
    if finding.gpu is not None:
        return "gpu"
    return "rank" if finding.rank is not None else "node" if finding.node else "run"
