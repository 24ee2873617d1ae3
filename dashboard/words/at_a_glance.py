"""Under a finding's sentence: since when, how much, how sure, and what to do first."""

from datetime import UTC, datetime

from lockstep.analyzer.causes.registry import CAUSE_WORDS
from lockstep.analyzer.findings.finding import Kind, Tier, WatchFinding, Who
from lockstep.analyzer.findings.headline import first_action
from lockstep.analyzer.shapes.wording import certainty, hours, ratio
from lockstep.collector.contract.words import Cause
from lockstep.dashboard.shapes import FindingRow, RunRow, Severity
from lockstep.dashboard.words.age import duration
from lockstep.dashboard.words.spent import HOUR

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
