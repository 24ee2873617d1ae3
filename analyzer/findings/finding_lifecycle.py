"""How findings open and close: nobody is notified twice, and nothing that flickers is sent."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2s

from lockstep.analyzer.findings.closable import AGAIN, WENT_ON, Closable
from lockstep.analyzer.findings.finding import XID, Change, Detection, Kind, Tier, WatchFinding, Who
from lockstep.analyzer.shapes.wording import TOLD
from lockstep.collector.contract.words import Cause

PLAIN = re.compile(r"[^A-Za-z0-9._-]+")
LONGEST_SLUG = 48
CAUSE_TOLD = TOLD
"""A cause that nobody knew when the finding opened is reported from this confidence on."""
ONSET_SECONDS = 30.0
"""A later look that sees the same onset may place it so much later."""
READING_SECONDS = 60.0
"""Over which `Closable.readings` are taken: what is over is seen to be half of it later."""
TELLING_SLOWDOWN = 1.1
"""A rank slower than this stands out from its peers in one minute (noise of steps:
docs/method/alerting.md); what is less is over when diagnoses do not see it any more."""
STANDS = "its run stands by it now"
GPU_SLOW = frozenset({Kind.SLOW, Kind.HARDWARE})
"""What deviates may come to cost time: it is one thing going on."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long is long enough, seconds.

    Attributes:
        confirm: How long what is not sure must be seen, cycle for cycle: as long as a diagnosis
            looks back, so that the first and the last share no data.
        close: How long a finding must not have been seen until it is over; a look in the second
            half of that time must say so too.
        recover: The same of a rank whose own time says in every look that it is as fast as before;
            None = as `close`.
    """

    confirm: float
    close: float
    recover: float | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """The open findings, and since when others are seen that are not sure yet.

    Attributes:
        open: By whom they are about and their tier.
        waiting: (first seen, last seen) of what is not sure, unix seconds.
    """

    open: Mapping[tuple[Who, Tier], WatchFinding]
    waiting: Mapping[tuple[Who, Tier], tuple[float, float]]


def advance(
    course: Course, sightings: Iterable[Detection], judged: Closable, pace: Pace,
    lately: Iterable[WatchFinding] = (),
) -> tuple[Course, Change]:  # fmt: skip
    """One cycle.

    What is missing neither opens nor closes: of a run that was not judged nothing changes, and the
    time in which it was not judged does not count.

    Args:
        course: As it was.
        sightings: What is seen, the most certain of each first.
        judged: What this cycle knows of whom, and its time on Prometheus' clock.
        pace: How long is long enough.
        lately: What closed not long ago: of what is over diagnoses, which look back, report anew.
    """
    now = judged.now
    past = [one for one in lately if one.closed is not None and now - one.closed < pace.confirm]
    seen = _first_of_each(one for one in sightings if one.who.run in judged.runs)
    waiting: dict[tuple[Who, Tier], tuple[float, float]] = {}
    opened: list[WatchFinding] = []
    still: list[WatchFinding] = []
    closed: list[WatchFinding] = []
    paged: set[str] = set()
    followed: set[tuple[Who, Tier]] = set()
    for key, finding in course.open.items():
        looked = judged.looked(finding.who, finding.kind)
        last = min(finding.seen, now)  # the clock may have been put back
        ending = judged.ending(finding.who, finding.kind, finding.opened)
        if ending == WENT_ON and key in seen:
            ending = None  # others go on, and it stands
        if ending:
            over = judged.went_on[finding.who.run] if ending == WENT_ON else now
            words = _in_all(finding.ending, ending)
            closed.append(replace(_over(finding, over, now), ending=words))
            continue
        if ending == "":
            still.append(_held(finding, judged, now))
            continue
        finding = replace(finding, ending="")  # its run is reported again
        if key in seen and _is_another(finding, seen[key]):
            words = f"another error followed, {seen[key].signature.replace(XID, 'XID ')}"
            closed.append(replace(_over(finding, now, now), ending=words))
            followed.add(key)
            continue
        if key in seen and seen[key].kind is Kind.STOP and finding.kind in GPU_SLOW:
            closed.append(replace(_over(finding, now, now), ending=STANDS))
            continue
        reading = judged.reading(finding.who) if finding.kind is Kind.SLOW else None
        if _recovered(finding, reading):
            # Diagnoses look back: they see what is over for as long as it lasted.
            if now - last >= (pace.close if pace.recover is None else pace.recover):
                closed.append(_over(finding, last, now))
            else:
                still.append(replace(finding, seen=last))
        elif key in seen or looked <= last or _covered(key, seen):
            renewed = _renewed(replace(finding, seen=now), seen.get(key), now)
            still.append(renewed if key not in seen else replace(renewed, reading=reading))
        elif now - last >= pace.close and looked - last >= pace.close / 2:
            closed.append(_over(finding, last, now))
        else:
            still.append(replace(finding, seen=last))
    open_now = [(one.who, one.tier) for one in still]
    just_closed = {(one.who, one.tier) for one in closed} - followed
    for key, sighting in seen.items():
        if key in just_closed:
            continue  # its alert would be the same: people hear of the end first
        if any(_says(other, key) for other in open_now):
            continue
        if sighting.kind is Kind.SLOW and _is_past(key[0], past, judged.reading(key[0])):
            continue
        first, last = course.waiting.get(key, (now, now))
        first = min(first, now)  # the clock may have been put back
        if now - last > pace.close:
            first = now
        if now - first >= (sighting.settle if sighting.sure else pace.confirm):
            reading = judged.reading(key[0]) if sighting.kind is Kind.SLOW else None
            new = replace(_opened(sighting, first, now), reading=reading)
            before = next((one for one in still if _becomes(one, new)), None)
            if before is None:
                opened.append(new)
            else:
                still = [_paged(before, new) if one is before else one for one in still]
                paged.add(before.folder)
            open_now.append(key)
        else:
            waiting[key] = first, now
    for key, (first, last) in course.waiting.items():
        if key[0].run in judged.over and key[0].run not in judged.unclear:
            continue
        if not judged.tells_of(key[0]):  # what nobody saw confirms nothing
            waiting.setdefault(key, (first + now - last, now))
        elif key not in seen and now - last < pace.close:
            waiting.setdefault(key, (first, last))
    after = {(one.who, one.tier): one for one in (*still, *opened)}
    change = Change(tuple(opened), tuple(closed), tuple(still), frozenset(paged))
    return Course(after, waiting), change


def _over(finding: WatchFinding, ended: float, now: float) -> WatchFinding:
    """It is over since a moment, and that is known now."""
    return replace(finding, closed=now, ended=min(now, max(ended, finding.onset)))


def _is_another(finding: WatchFinding, sighting: Detection) -> bool:
    """Whether what is seen there is an error of another number than what a finding reports."""
    both = finding.kind is Kind.EVENT and sighting.kind is Kind.EVENT
    return both and "" != finding.signature != sighting.signature != ""


def _recovered(finding: WatchFinding, reading: float | None) -> bool:
    """Whether its own time fell to what it was before it became slow, or nearer to it than not.

    A place with more work than its peers is as far from them as before, so what it is compared with
    is its own reading while it was slow.
    """
    slowdown, before = finding.slowdown, finding.reading
    if reading is None or before is None or slowdown is None or slowdown < TELLING_SLOWDOWN:
        return False
    return reading < before * (1.0 + 1.0 / slowdown) / 2.0


def _is_past(who: Who, past: Iterable[WatchFinding], reading: float | None) -> bool:
    """Whether somebody was slow, and is as fast as before now."""
    slow = (one for one in past if one.who == who and one.kind is Kind.SLOW)
    return any(_recovered(one, reading) for one in slow)


def _becomes(record: WatchFinding, page: WatchFinding) -> bool:
    """Whether a page is what was for the record until now, and costs time."""
    same = record.kind is page.kind or {record.kind, page.kind} <= GPU_SLOW
    if record.tier is not Tier.RECORD or page.tier is not Tier.PAGE or not same:
        return False
    whole_node = page.who.rank is None and page.who.gpu is None
    return record.who == page.who or (not whole_node and page.who.covers(record.who))


def _paged(record: WatchFinding, page: WatchFinding) -> WatchFinding:
    """A record that has become a page: one finding that goes on."""
    alike = record.kind is page.kind
    return replace(
        page, opened=record.opened, first_seen=record.first_seen, folder=record.folder,
        onset=min(record.onset, page.onset) if alike else page.onset, paged=page.opened,
        incident=record.incident, former=record.former, lost_seconds=record.lost_seconds,
        counted=record.counted, unit=record.unit, uuid=page.uuid or record.uuid,
    )  # fmt: skip


def _held(finding: WatchFinding, judged: Closable, now: float) -> WatchFinding:
    """One whose run has ended: that is said, if it ended afterwards."""
    run = finding.who.run
    ending = "" if finding.opened > judged.held[run] else judged.over[run]
    return replace(finding, seen=now, ending=ending)


def _in_all(before: str, ending: str) -> str:
    """How it is over, where something was known of that while it was open."""
    return f"{before}, and {ending}" if before and ending == AGAIN else ending


def _renewed(finding: WatchFinding, sighting: Detection | None, now: float) -> WatchFinding:
    """With what is known now; who it is about, and since when, stays as it was reported.

    A later look may begin after the onset: then what it says of the beginning is not taken. The
    cause is a label of the alert: it changes once, when it becomes known.
    """
    if sighting is None or sighting.kind is not finding.kind:
        return finding
    finding = replace(finding, signature=sighting.signature or finding.signature)
    learnt = finding.cause == Cause.UNKNOWN and sighting.cause != Cause.UNKNOWN
    if learnt and sighting.confidence >= CAUSE_TOLD:
        return replace(
            finding, cause=sighting.cause, confidence=sighting.confidence, learnt=now,
            slowdown=sighting.slowdown, place_confidence=sighting.place_confidence,
            sentence=sighting.sentence, facts=sighting.facts, by_dumps=None,
        )  # fmt: skip
    slowdown = finding.slowdown if sighting.slowdown is None else sighting.slowdown
    if sighting.cause != finding.cause:  # what was reported stands, and is not half changed
        return replace(finding, slowdown=slowdown)
    # Of a stop the first words stand: dumps are reported beside them.
    slow = finding.kind is Kind.SLOW
    whole = slow and sighting.onset <= finding.onset + ONSET_SECONDS
    return replace(
        finding,
        confidence=sighting.confidence,
        slowdown=slowdown,
        place_confidence=(
            finding.place_confidence if sighting.place_confidence is None
            else sighting.place_confidence
        ),
        sentence=sighting.sentence if whole else finding.sentence,
        facts=sighting.facts if whole and sighting.facts else finding.facts,
    )  # fmt: skip


def slug(text: str) -> str:
    """A name as a folder's: letters, digits, `.`, `_` and `-` only, and never two names as one.

    A name that is not plain gets eight hexadecimal digits of its hash.
    """
    plain = PLAIN.sub("-", text).strip(".-")[:LONGEST_SLUG]
    if plain and plain == text:
        return text
    mark = blake2s(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{plain}-{mark}" if plain else mark


def folder_of_run(run: str) -> str:
    """Where the archives of a run's findings are, below the folder of all."""
    return slug(run) if run else "no-run"


def folder_of(run: str, now: float, culprit: str) -> str:
    """Where the archive of a finding is that opens now, below the folder of all."""
    return f"{folder_of_run(run)}/{moment_of(now)}-{slug(culprit)}"


def _first_of_each(sightings: Iterable[Detection]) -> dict[tuple[Who, Tier], Detection]:
    """Of one culprit the surest sighting; of one with a page none for the record."""
    seen: dict[tuple[Who, Tier], Detection] = {}
    for one in sightings:
        key = one.who, one.tier
        if key not in seen or (one.sure and not seen[key].sure):
            seen[key] = one
    return {key: one for key, one in seen.items() if not _covered(key, seen)}


def _covered(key: tuple[Who, Tier], seen: Mapping[tuple[Who, Tier], object]) -> bool:
    """Whether something wider that is seen, or the same as a page, says it as well."""
    return any(other != key and _says(other, key) for other in seen)


def _says(finding: tuple[Who, Tier], other: tuple[Who, Tier]) -> bool:
    """Whether the first reports what the second would report."""
    graver = finding[1] is Tier.PAGE or other[1] is Tier.RECORD
    return (
        graver
        and finding[0].covers(other[0])
        and not (finding[0] != other[0] and finding[0].node is None)
    )


def _opened(sighting: Detection, first: float, now: float) -> WatchFinding:
    who = sighting.who
    return WatchFinding(
        who=who,
        kind=sighting.kind,
        scope=sighting.scope,
        attempt=sighting.attempt,
        cause=sighting.cause,
        tier=sighting.tier,
        confidence=sighting.confidence,
        slowdown=sighting.slowdown,
        onset=min(sighting.onset, now),
        first_seen=first,
        opened=now,
        seen=now,
        closed=None,
        sentence=sighting.sentence,
        facts=sighting.facts,
        folder=folder_of(who.run, now, _culprit(who)),
        uuid=sighting.uuid,
        from_step=sighting.from_step,
        place_confidence=sighting.place_confidence,
        hang=sighting.hang,
        signature=sighting.signature,
        quiet=sighting.quiet,
    )


def _culprit(who: Who) -> str:
    return "-".join(who.words.removeprefix("the ").split())


def moment_of(unix: float) -> str:
    """A moment as a folder's name begins with it."""
    return f"{datetime.fromtimestamp(unix, UTC):%Y%m%dT%H%M%SZ}"
