"""The words of an alert: who, since when, how much, what to do first, and how sure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from shlex import quote

from lockstep.analyzer.causes.cause_spec import DRAIN
from lockstep.analyzer.causes.registry import CAUSE_WORDS
from lockstep.analyzer.findings.finding import LOST, Kind, Tier, WatchFinding
from lockstep.analyzer.report.sections.advice import UNSURE, actions_of, argument, command_of
from lockstep.analyzer.shapes.run import Culprit
from lockstep.analyzer.shapes.wording import TOLD, certainty, duration, ratio
from lockstep.collector.contract.words import Cause
from lockstep.collector.contract.xid import describe
from lockstep.collector.contract.xid_catalogue.shape import Action as XidAction

LONGEST = 120
"""Characters of the line: what telephones show of a notification before it is opened."""
LONGEST_NAME = 24
"""Of a name of others in it; the whole name stands below, and in the labels."""
CUT = "…"
KNOWN, NOT_KNOWN = ("mitigate", "verify"), ("verify", "mitigate")
"""What is done first: the end of the trouble, where place and cause are known."""
COMPARE = "Compare the node with a healthy one."
RESTART = "Restart the run without the node from the last checkpoint."
"""Of a run that stands no node is taken out after a checkpoint: there comes none."""
DIFFERS = "its program calls what the others do not"
"""Of a run that stands by its software: operations, shapes, types or their order differ."""
FREE = frozenset({"verify", "detect"})
"""Purposes of actions that take nothing out of service."""
SHARED = "See what these places share before any is taken out."
NOTHING_FIRST = "Nothing to do if it was ended on purpose."
GONE = "Take the node out of service now: the run does not reach its next checkpoint."
OF_XID = "Read the driver's messages."
OUT_OF_SERVICE = frozenset({XidAction.COMPONENT_RESET, XidAction.RESTART_BM, XidAction.RESTART_VM})
MOST_PLACES = 20
OF_PROCESS = frozenset({Cause.FREEZE, Cause.CRASH})
"""Causes of a stop that a restart elsewhere ends."""


def headline(finding: WatchFinding, others: Sequence[WatchFinding] = ()) -> str:
    """At most LONGEST characters: who, since when, how much, and what to do.

    Args:
        finding: Open or closed.
        others: What is reported with it.
    """
    if finding.closed is not None:
        return clipped(_is_over(finding), LONGEST)
    if others:
        return clipped(_together(finding, others), LONGEST)
    stopped = finding.kind is Kind.STOP and (finding.scope != "run" or _has_ended(finding))
    since = "at" if stopped or finding.xid is not None else "since"
    what = f"{_who(finding)} {_how_much(finding)} {since} {_clock(finding.onset)}"
    why = _why(finding)
    do = _do(finding)
    for line in (f"{what}, {why}. {do}", f"{what}. {do}"):
        if len(line) <= LONGEST:
            return line
    return clipped(f"{what}. {do}", LONGEST)


def _is_over(finding: WatchFinding) -> str:
    """What was wrong, and for how long; there is nothing to do."""
    length = "" if finding.xid is not None else f" after {duration(finding.lasted)}"
    return f"Over{length}: {_who(finding)}, {_why(finding)}, since {_clock(finding.onset)}."


def _together(finding: WatchFinding, others: Sequence[WatchFinding]) -> str:
    every = (finding, *others)
    of = f"run {_name(finding.who.run)}" if finding.who.run else _name(finding.who.node or "")
    since = _clock(min(one.onset for one in every))
    what = f"{len(every)} places of {of} since {since}, {_why(finding)}, first {_who(finding)}."
    return f"{what} {first_action(finding, others)[0]}"


def places(findings: Sequence[WatchFinding]) -> str:
    """The places of the findings of one alert, a line each."""
    lines = [f"{_who(one)}, {_why(one)}, since {_clock(one.onset)}" for one in findings]
    more = len(lines) - MOST_PLACES
    return "\n".join(lines[:MOST_PLACES] + ([f"and {more} more"] if more > 0 else []))


def sureness(finding: WatchFinding) -> str:
    """How certain place and cause are, each in a word of its own and its figure."""
    place = finding.place_confidence
    where = "Place: unknown." if place is None else f"Place: {certainty(place)}."
    if finding.cause == Cause.UNKNOWN:
        return f"{where} Cause: unknown."
    why = CAUSE_WORDS.get(finding.cause, finding.cause)
    if finding.kind is Kind.STOP and finding.cause == Cause.SOFTWARE:
        why = DIFFERS
    doubt = ", if this is the place" if place is not None and place < TOLD else ""
    return f"{where} Cause: {why}, {certainty(finding.confidence)}{doubt}."


def first_action(finding: WatchFinding, others: Sequence[WatchFinding] = ()) -> tuple[str, str]:
    """What to do first on this machine, and the command for it, or an empty one.

    Args:
        finding: Open or closed.
        others: What is reported with it.
    """
    if finding.closed is not None:
        return "", ""
    if _has_ended(finding):
        return NOTHING_FIRST, ""
    if {one.who.node for one in others} - {finding.who.node}:
        return SHARED, ""
    if finding.who.node is None and finding.who.link is None:
        return "See which rank does not answer.", ""
    if finding.kind is Kind.STOP:
        return _of_stop(finding)
    culprit = _culprit(finding)
    if finding.signature:
        return _of_event(finding, culprit)
    without = {finding.who.node} if finding.who.gpu is None else set()
    actions = actions_of(culprit, without)
    if finding.tier is Tier.RECORD:  # it costs nothing: what is done about it must cost less
        actions = tuple(one for one in actions if one.purpose in FREE) or UNSURE
    if actions is UNSURE:
        return COMPARE, ""
    known = _placed(finding) and finding.cause != Cause.UNKNOWN and finding.kind is not Kind.EVENT
    purposes = KNOWN if known else NOT_KNOWN
    chosen = next(
        (each for purpose in purposes for each in actions if each.purpose == purpose), actions[0]
    )
    return chosen.text, command_of(chosen, culprit) if chosen.command else ""


def _has_ended(finding: WatchFinding) -> bool:
    """Whether it is a run that ended, and nobody knows of a fault."""
    return finding.kind is Kind.STOP and finding.tier is Tier.RECORD


def _of_event(finding: WatchFinding, culprit: Culprit) -> tuple[str, str]:
    """What to do first about an error that the driver logged: as its catalogue says.

    A run on a GPU that is gone reaches no next checkpoint.
    """
    if finding.xid is None:
        return GONE, command_of(DRAIN, culprit)
    described = describe(finding.xid)
    advice = described.advice or OF_XID
    out = described.action in OUT_OF_SERVICE
    return advice, command_of(DRAIN, culprit) if out else ""


def _of_stop(finding: WatchFinding) -> tuple[str, str]:
    """What to do first about a run that stands."""
    who = finding.who
    if finding.cause in OF_PROCESS and _placed(finding):
        return RESTART, ""
    asked = f"lockstep dump {argument(who.run, 'RUN')} --stacks"  # reports its own machine
    command = f"ssh {argument(who.node, 'NODE')} {quote(asked)}" if who.node and who.run else ""
    whom = "its ranks stand" if who.rank is None else f"rank {who.rank} stands"
    if finding.cause != Cause.SOFTWARE:
        return f"See where {whom}.", command
    whose = "calls of its ranks differ" if who.rank is None else f"calls of rank {who.rank} differ"
    return f"Mend the program, not the node: {whose}.", command


def _placed(finding: WatchFinding) -> bool:
    """Whether the place is certain enough to be named; of its own sensor it always is."""
    return finding.place_confidence is None or finding.place_confidence >= TOLD


def clipped(text: str, most: int) -> str:
    """The text, or its beginning up to a word's end and an ellipsis; one line."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    begun = line[: most - len(CUT)]
    whole, _, _ = begun.rpartition(" ")
    return (whole if len(whole) > most // 2 else begun).rstrip(" .,;:") + CUT


def _who(finding: WatchFinding) -> str:
    who = finding.who
    if who.link is not None:
        return f"Link {_name(who.link)}"
    node = _name(who.node or "")
    gpu = "" if who.gpu is None else f" GPU {who.gpu}"
    if who.rank is not None:
        return f"{node}{gpu} (rank {who.rank})" if node else f"Rank {who.rank}"
    return f"{node}{gpu}" if node else f"Run {_name(who.run)}"


def _how_much(finding: WatchFinding) -> str:
    if finding.kind is Kind.STOP:
        if _has_ended(finding):
            return "ended"
        return "stands" if finding.scope == "run" else "stopped the run"
    if finding.xid is not None:
        return f"logged XID {finding.xid}"
    if finding.signature == LOST:
        return "has lost a GPU"
    if finding.slowdown is not None:
        return f"{ratio(finding.slowdown)} slower"
    return "holds the run back" if finding.kind is Kind.SLOW else "deviates"


def _why(finding: WatchFinding) -> str:
    return "cause unknown" if finding.cause == Cause.UNKNOWN else str(finding.cause)


def _do(finding: WatchFinding) -> str:
    return first_action(finding)[0]


def _name(name: str) -> str:
    """A name of others on one line; of a long one without its middle: its ends distinguish it."""
    line = "".join(each if each.isprintable() else " " for each in name)
    if len(line) <= LONGEST_NAME:
        return line
    half = (LONGEST_NAME - len(CUT)) // 2
    return f"{line[:half]}{CUT}{line[-half:]}"


def _clock(unix: float) -> str:
    return f"{datetime.fromtimestamp(unix, UTC):%H:%M:%S} UTC"


def _culprit(finding: WatchFinding) -> Culprit:
    """The finding as the report's advice takes it."""
    who = finding.who
    return Culprit(
        finding.scope, who.rank, who.node, who.gpu, finding.uuid, None, None, None, who.link,
        finding.from_step, None, None, finding.slowdown, None, finding.cause, finding.confidence,
        finding.tier.value, finding.evidence, finding.place_confidence,
    )  # fmt: skip
