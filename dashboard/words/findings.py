"""Findings and events as tables, with links to the place and the time of each."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pandas as pd

from lockstep.analyzer.causes.registry import CAUSE_WORDS
from lockstep.analyzer.findings.finding import Kind, Tier, WatchFinding, Who
from lockstep.analyzer.findings.headline import first_action
from lockstep.analyzer.shapes.wording import certainty, hours, ratio
from lockstep.collector.contract.words import Cause
from lockstep.dashboard.address import Place, link
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


def findings(found: Sequence[FindingRow], runs: Mapping[str, RunRow]) -> pd.DataFrame:
    """One row a finding, in the order given.

    Args:
        found: What to show.
        runs: By id; a link's range stays within its run.

    Returns:
        Columns `FINDINGS`; those of `FINDING_LINKS` hold addresses, empty where they lead nowhere.
    """
    rows = []
    for one in found:
        row = runs.get(one.run)
        place = around(one, row.span if row else None)
        node = link("node", place, gpu=None, rank=None) if one.node else ""
        rows.append((
            one.node or one.link, one.gpu, one.rank, one.cause, one.slowdown, _moment(one.since),
            severity_word(one.severity), "open" if one.open else "ended",
            *(None if sure is None else round(sure, 2)
              for sure in (one.place_confidence, one.confidence)),
            one.run, one.sentence,
            link("straggler", place, rank=None) if one.run else "", node,
            link("run", place, rank=None) if one.run else "",
        ))  # fmt: skip
    frame = pd.DataFrame(rows, columns=list(FINDINGS))
    return frame.astype(
        {"GPU": "Int64", "rank": "Int64"} | dict.fromkeys(("slowdown", *SURE), "float64")
    )


def around(one: FindingRow, span: Span | None) -> Place:
    """Where a finding is, with a range around its onset.

    Args:
        one: The finding.
        span: Of its run; None = not known.
    """
    start, end = one.since - BEFORE_SECONDS, one.since + AFTER_SECONDS
    if span is not None and span.start <= one.since <= span.end:
        start, end = max(start, span.start), min(end, span.end)
    return Place(
        run=one.run, node=one.node, gpu=one.gpu, rank=one.rank, finding=one.finding,
        since=str(int(max(start, 0.0) * 1000)), until=str(int(end * 1000) + 1),
    )  # fmt: skip


def events(found: Sequence[Event]) -> pd.DataFrame:
    """One row an event, in the order given; columns `EVENTS`."""
    rows = [
        (_moment(one.at), severity_word(one.severity), one.text, _where(one), one.kind)
        for one in found
    ]
    return pd.DataFrame(rows, columns=list(EVENTS))


def _cost(one: FindingRow) -> float:
    """Slowdown; what stops a run costs more than what slows it."""
    return math.inf if one.cause in (Cause.FREEZE, Cause.CRASH) else one.slowdown or 0.0


def _where(one: Event) -> str:
    gpu = "" if one.gpu is None else f"GPU {one.gpu}"
    rank = "" if one.rank is None else f"rank {one.rank}"
    return ", ".join(part for part in (one.node, gpu, rank) if part) or one.run


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


# Under a finding's sentence: since when, how much, how sure, and what to do first.

KINDS = frozenset(Kind)
STOPS = frozenset((Cause.CRASH, Cause.FREEZE, Cause.SOFTWARE))
"""Causes of a run that stands, where nobody told a slowdown."""


def since(one: FindingRow, now: float) -> str:
    """When it began and for how long it went on, or goes on."""
    began = datetime.fromtimestamp(one.since, UTC)
    ended = now if one.until is None else one.until
    until = "open" if one.open else "ended"
    return f"{began:%Y-%m-%d %H:%M:%S} UTC, {until} after {duration(max(0.0, ended - one.since))}"


def cost(one: FindingRow, run: RunRow | None) -> str:
    """How much it is slower, what that does to the run's steps, and what is lost so far."""
    parts = [] if one.slowdown is None else [f"{ratio(one.slowdown)} its own time"]
    if run is not None and run.slowdown is not None:
        parts.append(f"the run's steps {ratio(run.slowdown)}")
    so_far = " so far" if one.open else ""
    if one.lost_seconds is not None:  # as its alert says
        parts.append(f"{hours(one.lost_seconds / HOUR, one.unit)} lost{so_far}")
    elif run is not None and run.lost_gpu_hours is not None:
        lost = run.lost_gpu_hours
        spent = f"{lost:,.3g} GPU-h" if lost >= 1 else f"{lost * HOUR:,.3g} GPU-s"
        parts.append(f"{spent} lost{so_far}")
    return ", ".join(parts) if parts else "not known"


def why(one: FindingRow) -> str:
    """The cause and how sure it is; that nobody knows it is said so."""
    if one.cause == Cause.UNKNOWN:
        return "not known"
    words = CAUSE_WORDS.get(one.cause, one.cause)
    return words if one.confidence is None else f"{words}, {certainty(one.confidence)}"


def to_do(one: FindingRow) -> tuple[str, str]:
    """What to do first, and the command for it or nothing: the words of the alert.

    A run that ended with its culprit leaves a machine that is as suspect as before.
    """
    return first_action(_as_watched(one))


def _as_watched(one: FindingRow) -> WatchFinding:
    page = one.severity is Severity.CRITICAL
    return WatchFinding(
        who=Who(one.run, one.node or None, one.rank, one.gpu, one.link or None),
        kind=_kind(one), scope=one.scope or _scope(one), attempt=None, cause=one.cause,
        tier=Tier.PAGE if page else Tier.RECORD, confidence=one.confidence or 0.0,
        slowdown=one.slowdown, onset=one.since, first_seen=one.since, opened=one.since,
        seen=one.since, closed=None if one.lasts else one.until, sentence=one.sentence,
        facts=(), folder="", place_confidence=one.place_confidence,
        lost_seconds=one.lost_seconds, unit=one.unit,
    )  # fmt: skip


def _kind(one: FindingRow) -> Kind:
    """As it was confirmed; a guess where its source does not tell."""
    if one.kind in KINDS:
        return Kind(one.kind)
    return Kind.STOP if one.slowdown is None and one.cause in STOPS else Kind.SLOW


def _scope(one: FindingRow) -> str:
    if one.link:
        return "link"
    if one.gpu is not None:
        return "gpu"
    return "rank" if one.rank is not None else "node" if one.node else "run"
