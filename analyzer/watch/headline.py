"""An alert's words: a line of who, since when, how much and what to do; how sure; what first."""

from datetime import UTC, datetime
from shlex import quote

from analyzer.causes import CAUSE_WORDS
from analyzer.report.advice import UNSURE, actions_of, argument, command_of
from analyzer.run import Culprit
from analyzer.watch.finding import Kind, WatchFinding
from analyzer.wording import TOLD, certainty, ratio
from collector.contract.words import Cause

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
OF_PROCESS = frozenset({Cause.FREEZE, Cause.CRASH})
"""Causes of a stop that a restart elsewhere ends."""


def headline(finding: WatchFinding) -> str:
    """At most LONGEST characters: who, since when, how much, and what to do."""
    what = f"{_who(finding)} {_how_much(finding)} since {_clock(finding.onset)}"
    why = _why(finding)
    do = _do(finding)
    for line in (f"{what}, {why}. {do}", f"{what}. {do}"):
        if len(line) <= LONGEST:
            return line
    return clipped(f"{what}. {do}", LONGEST)


def sureness(finding: WatchFinding) -> str:
    """How certain place and cause are, each in a word of its own and its figure."""
    place = finding.place_confidence
    where = "Place: not told apart." if place is None else f"Place: {certainty(place)}."
    if finding.cause == Cause.UNKNOWN:
        return f"{where} Cause: not known."
    why = CAUSE_WORDS.get(finding.cause, finding.cause)
    if finding.kind is Kind.STOP and finding.cause == Cause.SOFTWARE:
        why = DIFFERS
    doubt = ", if this is the place" if place is not None and place < TOLD else ""
    return f"{where} Cause: {why}, {certainty(finding.confidence)}{doubt}."


def first_action(finding: WatchFinding) -> tuple[str, str]:
    """What to do first on this machine, and the command for it, or an empty one."""
    if finding.who.node is None and finding.who.link is None:
        return "See which rank does not answer.", ""
    if finding.kind is Kind.STOP:
        return _of_stop(finding)
    culprit = _culprit(finding)
    without = {finding.who.node} if finding.who.gpu is None else set()
    actions = actions_of(culprit, without)
    if actions is UNSURE:
        return COMPARE, ""
    purposes = KNOWN if _placed(finding) and finding.cause != Cause.UNKNOWN else NOT_KNOWN
    chosen = next(
        (each for purpose in purposes for each in actions if each.purpose == purpose), actions[0]
    )
    return chosen.text, command_of(chosen, culprit) if chosen.command else ""


def _of_stop(finding: WatchFinding) -> tuple[str, str]:
    """What to do first about a run that stands."""
    who = finding.who
    if finding.cause in OF_PROCESS and _placed(finding):
        return RESTART, ""
    asked = f"lockstep dump {argument(who.run, 'RUN')} --stacks"  # tells of its own machine
    command = f"ssh {argument(who.node, 'NODE')} {quote(asked)}" if who.node and who.run else ""
    whom = "its ranks stand" if who.rank is None else f"rank {who.rank} stands"
    if finding.cause != Cause.SOFTWARE:
        return f"See where {whom}.", command
    whose = "calls of its ranks differ" if who.rank is None else f"calls of rank {who.rank} differ"
    return f"Mend the program, not the node: {whose}.", command


def _placed(finding: WatchFinding) -> bool:
    """Whether it is told as the place; what its own sensor told is."""
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
        return "stands" if finding.scope == "run" else "stopped the run"
    if finding.slowdown is not None:
        return f"{ratio(finding.slowdown)} slower"
    return "holds the run back" if finding.kind is Kind.SLOW else "deviates"


def _why(finding: WatchFinding) -> str:
    return "cause not known" if finding.cause == Cause.UNKNOWN else str(finding.cause)


def _do(finding: WatchFinding) -> str:
    return first_action(finding)[0]


def _name(name: str) -> str:
    """A name of others on one line, its middle left out where it is long: ends tell names apart."""
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
