"""Storms: findings of one run with one signature, in the same minutes, are told by one alert.

Each finding stays one of its own on pages and metrics. An alert is its labels: those of the finding
that an incident began with stand for as long as that finding is open. Then the oldest that is left
is told by labels of its own: labels never name a place where all is well.
"""

from collections.abc import Hashable
from dataclasses import replace

from lockstep.analyzer.findings.finding import Change, Former, Incident, Kind, Tier, WatchFinding
from lockstep.analyzer.findings.finding_lifecycle import GPU_SLOW, Course
from lockstep.collector.contract.words import Cause

JOIN_SECONDS = 300.0
"""What opens so long after an incident began belongs to it."""
MOST_FORMER = 8
COMPUTE = frozenset({Cause.THERMAL, Cause.POWER, Cause.SLOW_GPU})
"""Clocks fall by heat, by a power cap, and for no reason that is told: one signature of a GPU."""


def with_incidents(course: Course, change: Change, now: float) -> tuple[Course, Change]:
    """The same, with the alert that tells of each finding.

    Args:
        course: After a cycle.
        change: What the cycle did.
        now: Unix seconds.
    """
    told = _assigned(change.open, now)
    after = replace(
        change,
        opened=tuple(told[one.folder] for one in change.opened),
        still=tuple(told[one.folder] for one in change.still),
    )
    open_now = {key: told.get(one.folder, one) for key, one in course.open.items()}
    return replace(course, open=open_now), after


def _assigned(findings: tuple[WatchFinding, ...], now: float) -> dict[str, WatchFinding]:
    """Each finding, by its folder, with its incident."""
    heads = {
        (one.folder, one.tier): replace(one.incident, who=one.who, cause=one.cause)
        for one in findings if one.incident is not None and one.incident.folder == one.folder
        and one.incident.tier is one.tier
    }  # fmt: skip
    left: dict[tuple[str, Tier], list[WatchFinding]] = {}
    for one in findings:
        if one.incident is not None and one.incident.tier is one.tier:
            left.setdefault((one.incident.folder, one.tier), []).append(one)
    found: dict[str, WatchFinding] = {}
    groups: dict[Hashable, Incident] = {}
    new: list[WatchFinding] = []
    for one in findings:
        if one.incident is None or one.incident.tier is not one.tier:
            new.append(one)
            continue
        told_by = one.incident.folder, one.tier
        if told_by not in heads:  # its first finding is over, or became a page
            heads[told_by] = min((each.alone for each in left[told_by]), key=_opened)
        incident = heads[told_by]
        found[one.folder] = _told_by(one, incident, now)
        known = groups.setdefault(_group(one), incident)
        if incident.opened > known.opened:  # the newest takes what comes
            groups[_group(one)] = incident
    for one in new:
        incident = one.alone
        known = groups.get(_group(one), incident)
        # What an older process opened keeps its own.
        if one.quiet or incident.opened < now or now - known.opened > JOIN_SECONDS:
            known = incident
        if not one.quiet:
            groups[_group(one)] = known
        found[one.folder] = _told_by(one, known, now)
    return found


def _opened(incident: Incident) -> float:
    return incident.opened


def _told_by(finding: WatchFinding, incident: Incident, now: float) -> WatchFinding:
    before = finding.incident
    if before is None or before.labels == incident.labels:
        return replace(finding, incident=incident)
    former = (*finding.former, Former(before, now))[-MOST_FORMER:]
    return replace(finding, incident=incident, former=former)


def _group(finding: WatchFinding) -> Hashable:
    """What findings have in common that one alert tells of.

    Another error, or another stop, is another thing, though it came in the same minute.
    """
    cause = finding.signature or finding.cause
    if finding.kind in GPU_SLOW:
        kind, cause = "slow", "compute" if finding.cause in COMPUTE else finding.cause
    else:
        kind = str(finding.kind)
    place = finding.who.run or finding.who.node
    attempt = finding.attempt if finding.kind is Kind.STOP else None
    return place, finding.tier, kind, cause, attempt
