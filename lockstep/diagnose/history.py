"""The finding of `lockstep watch` in finding.json, as `history` of the verdict about its archive.

The verdict is a function of the telemetry in the archive. The finding stands beside it, and where
the two disagree the sentence ends by saying so.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lockstep.analyzer.findings.finding import ALERT_SCOPE, Kind, Tier, Who, is_named
from lockstep.analyzer.read.archive.files import moment, number, part, whole
from lockstep.analyzer.shapes.run import Grid, Verdict
from lockstep.analyzer.shapes.wording import ACCUSED, HOUR, duration, hours
from lockstep.analyzer.verdict.sentence import with_whole_loss as loss_in_all
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import FINDING_FILE
from lockstep.collector.contract.words import Cause

TOLD_BY: Mapping[str, str] = {
    Kind.SLOW: "from the windows of its steps",
    Kind.STOP: "since the run stood still",
    Kind.EVENT: "by an error that was logged",
    Kind.HARDWARE: "by readings of its hardware",
}
LONGEST = 1000
"""Characters of a text in a file that anybody may have changed."""
MOST_BYTES = 4 << 20


def read_finding(archive: Path) -> Mapping[str, Any] | None:
    """What finding.json of an archive says; None where there is none that is whole."""
    try:
        tree = bounded_json.read(archive / FINDING_FILE, limit=MOST_BYTES)
    except (OSError, ValueError):
        return None
    return tree if isinstance(tree, dict) and isinstance(tree.get("alerts"), list) else None


def with_history(verdict: Verdict, finding: Mapping[str, Any]) -> Verdict:
    """The verdict with the finding in its history; of the rest only the sentence's end changes.

    Args:
        verdict: About the archive.
        finding: Its finding.json, not trusted: a torn one changes nothing.
    """
    earlier = _past_finding(verdict, finding)
    if earlier is None:
        return verdict
    words = [] if earlier["agrees"] else [earlier["text"]]
    words += ["; ".join(earlier["changed"])] if earlier["changed"] else []
    end = "".join(f" {text[0].upper()}{text[1:]}." for text in words)
    return replace(verdict, history=(earlier,), sentence=verdict.sentence + end)


def with_whole_loss(verdict: Verdict, grid: Grid, finding: Mapping[str, Any]) -> Verdict:
    """The verdict about the archive of a finding that closed, with what it cost until then.

    An archive begins and ends with the look that opened it; watch counted on.

    Args:
        verdict: About the archive.
        grid: Its windows.
        finding: Its finding.json, not trusted.
    """
    lost, closed = number(finding.get("lost_seconds")), moment(finding.get("closed"))
    if lost is None or lost < 0 or closed is None or verdict.lost_gpu_hours is None:
        return verdict
    who = _who(verdict.run, part(finding, "key"))
    if len(verdict.culprits) != 1 or not is_named(verdict, who):
        return verdict
    return loss_in_all(verdict, grid, lost / HOUR)


def _who(run: str, key: Mapping[str, Any]) -> Who:
    return Who(
        run, _text(key.get("node")), whole(key.get("rank")), whole(key.get("gpu")),
        _text(key.get("link")),
    )  # fmt: skip


def _end(
    finding: Mapping[str, Any], cause: str, confidence: float | None
) -> tuple[str | None, list[str]]:
    """When it was over, and what changed since it opened, in words."""
    closed, learnt = moment(finding.get("closed")), moment(finding.get("learnt"))
    changed = []
    if learnt is not None:
        sure = "" if confidence is None else f", confidence {confidence:.2f}"
        changed.append(f"the cause became known at {_clock(learnt)}: {cause}{sure}")
    if closed is None:
        return None, changed
    lasted, lost = number(finding.get("lasted_seconds")), number(finding.get("lost_seconds"))
    unit = "rank" if finding.get("lost_unit") == "rank" else "GPU"
    over = moment(finding.get("ended"))
    words = f"it was over at {_clock(closed if over is None else over)}"
    words += "" if lasted is None or lasted < 0 else f", after {duration(lasted)}"
    words += "" if lost is None or lost < 0 else f" and {hours(lost / HOUR, unit)} in all"
    ending = _text(finding.get("ending"))
    changed.append(f"{words}: {ending}" if ending else words)
    return _iso(closed), changed


def _past_finding(verdict: Verdict, finding: Mapping[str, Any]) -> dict[str, Any] | None:
    key = part(finding, "key")
    sentence, tier, scope = (
        _text(text) for text in (finding.get("sentence"), key.get("tier"), key.get("scope"))
    )
    if sentence is None or tier not in list(Tier):
        return None
    who = _who(verdict.run, key)
    cause = _text(key.get("cause")) or str(Cause.UNKNOWN)
    confidence, kind = number(finding.get("confidence")), _text(finding.get("kind"))
    by = "alert" if scope == ALERT_SCOPE else "watch"
    opened = moment(finding.get("opened"))
    place_agrees, agrees = _agreement(verdict, who, cause)
    closed, changed = _end(finding, cause, confidence)
    claim = _claim(by, who, cause, confidence, opened, kind)
    return {
        "by": by,
        "opened": _iso(opened),
        "who": _place(who),
        "scope": scope or "run",
        "rank": who.rank, "node": who.node, "gpu": who.gpu,
        "uuid": _text(finding.get("uuid")), "link": who.link,
        "from_step": whole(finding.get("from_step")),
        "slowdown": number(finding.get("slowdown")),
        "cause": cause, "confidence": confidence, "tier": tier,
        "evidence": _evidence(finding.get("evidence")),
        "since": _iso(moment(finding.get("onset"))),
        "kind": kind if kind in TOLD_BY else None,
        "sentence": sentence,
        "place_agrees": place_agrees,
        "agrees": agrees,
        "closed": closed,
        "ending": _text(finding.get("ending")),
        "lost_seconds": number(finding.get("lost_seconds")),
        "changed": changed,
        "text": f"{claim}; {_answer(verdict, who, place_agrees=place_agrees, agrees=agrees)}",
    }  # fmt: skip


def _agreement(verdict: Verdict, who: Who, cause: str) -> tuple[bool, bool]:
    """Whether the verdict names the same place; and whether so, and with no other cause."""
    if _nobody(who):
        # Nobody was named then: a culprit now is an addition.
        return bool(verdict.culprits), verdict.status != "healthy"
    there = _causes(verdict, who)
    known = {cause, *there} - {Cause.UNKNOWN}
    return bool(there), bool(there) and (cause in there or len(known) < 2)


def _claim(
    by: str, who: Who, cause: str, confidence: float | None, opened: float | None, kind: str | None
) -> str:
    """Who said what, when and how they knew."""
    words = "an alert reported" if by == "alert" else "watch reported"
    if by == "watch" and not _nobody(who):
        words = "watch named"
    sure = "" if not confidence else f", confidence {confidence:.2f}"
    why = "" if by == "alert" else f" ({cause}{sure})"
    why = " (cause unknown)" if why and cause == Cause.UNKNOWN else why
    moment_ = None if opened is None else datetime.fromtimestamp(opened, UTC)
    when = "" if moment_ is None else f" at {moment_:%Y-%m-%d %H:%M:%S} UTC"
    how = TOLD_BY.get(kind or "", "") if by == "watch" else ""
    return f"{words} {_place(who)}{why}{when}{', ' if how else ''}{how}"


def _answer(verdict: Verdict, who: Who, *, place_agrees: bool, agrees: bool) -> str:
    """What this archive says to it."""
    names_now = ", ".join(culprit.who for culprit in verdict.culprits[:ACCUSED])
    if _nobody(who):
        if names_now:
            return f"this archive names {names_now}"
        return "this archive names nobody either" if agrees else "this archive alone says healthy"
    if agrees:
        return "this archive says so too"
    if place_agrees:
        return f"the cause by this archive alone is {' or '.join(_causes(verdict, who))}"
    return f"this archive alone names {names_now or 'nobody'}"


def _causes(verdict: Verdict, who: Who) -> list[str]:
    """Of its culprits at a place."""
    there = (
        culprit
        for culprit in verdict.culprits
        if is_named(replace(verdict, culprits=(culprit,)), who)
    )
    return sorted({str(culprit.cause) for culprit in there})


def _place(who: Who) -> str:
    on = "" if who.rank is None or who.node is None else f" on {who.node}"
    return who.words + on


def _nobody(who: Who) -> bool:
    return who.rank is None and who.gpu is None and who.node is None and who.link is None


def _evidence(facts: object) -> list[dict[str, Any]]:
    return [
        {"for": fact.get("for") is True, "text": text, "query": _text(fact.get("query")) or ""}
        for fact in (facts if isinstance(facts, list) else ())
        if isinstance(fact, dict) and (text := _text(fact.get("text"))) is not None
    ]


def _clock(unix: float) -> str:
    return f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _text(text: object) -> str | None:
    """A text in one line, bounded; None where it is none."""
    if not isinstance(text, str) or not text:
        return None
    return "".join(character if character.isprintable() else " " for character in text[:LONGEST])


def _iso(unix: float | None) -> str | None:
    return None if unix is None else datetime.fromtimestamp(unix, UTC).isoformat()
