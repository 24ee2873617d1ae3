"""What the conditions of a node should say, and whether that is worth a write."""

import re
from collections.abc import Iterable, Mapping

from analyzer.act.nodes.actions import Write
from analyzer.act.nodes.memory import is_heard
from analyzer.act.nodes.shapes import Condition, Fault, Known, Node, Settings, State, Status, Told
from collector.contract.kubernetes import FAMILY, HEALTHY, Family

MAX_MESSAGE = 1024
"""Characters (reference 10.2)."""
MAX_VALUE = 160
MAX_FAULTS = 64
"""Written on a node: an annotation has 256 KiB at most, and nobody reads more."""


def write(node: Node, told: Told, state: State, now: float, settings: Settings) -> Write | None:
    """The patch of one node; None = what is written is right, and fresh enough."""
    heard = is_heard(node, told, settings)
    ended = {
        fault: known
        for fault, known in node.faults.items()
        if now - state.gone.get((node.uid, fault), now) >= settings.settle
    }
    room = max(0, MAX_FAULTS - len(node.faults) + len(ended))
    begun = {
        fault.id: Known(state.first[node.uid, fault.id], fault.cause, fault.run, value(fault))
        for fault in told.faults.get(node.name, ())
        if fault.id not in node.faults and state.first[node.uid, fault.id] >= state.breaker.at
    }
    begun = dict(sorted(begun.items())[:room])
    faults = {name: one for name, one in node.faults.items() if name not in ended} | begun
    settled = now - state.heard.get(node.uid, now) >= settings.settle
    wanted = _wanted(node, faults.values(), heard=heard, settled=settled)
    conditions = {name: _dated(node, name, what, now) for name, what in wanted.items()}
    made = Write(node, conditions, faults, begun, ended)
    oldest = min((one.beat for one in node.conditions.values()), default=0.0)
    changed = made.tells or any(
        name not in node.conditions or node.conditions[name].status != one.status
        for name, one in conditions.items()
    )
    return made if changed or not 0 <= now - oldest < settings.beat else None


def value(fault: Fault) -> str:
    """A fault for people: a name of the cluster is never more than text there."""
    where = [
        f"{word} {name}"
        for word, name in (("GPU", fault.gpu), ("rank", fault.rank), ("link", fault.link))
        if name
    ]
    text = " ".join([fault.cause, *where])
    return "".join(each if each.isprintable() else "?" for each in text)[:MAX_VALUE]


Words = tuple[Status, str, str]
"""Status, reason, message."""


def _wanted(
    node: Node, faults: Iterable[Known], *, heard: bool, settled: bool
) -> Mapping[str, Words]:
    by_family: dict[Family, list[Known]] = {}
    for known in faults:
        by_family.setdefault(FAMILY.get(known.cause, Family.STRAGGLER), []).append(known)
    found = {
        family.value: _of_family(
            by_family.get(family, []), node.conditions.get(family), heard, settled
        )
        for family in Family
    }
    return {HEALTHY: _summary(found), **found}


def _of_family(
    faults: list[Known], now: Condition | None, heard: bool, settled: bool
) -> Words:  # fmt: skip
    if faults:
        causes = "".join(_camel(cause) for cause in sorted({one.cause for one in faults}))
        return Status.TRUE, causes, "; ".join(sorted({one.value for one in faults}))[:MAX_MESSAGE]
    if not heard:
        return Status.UNKNOWN, "NotHeard", "its collector was not scraped lately"
    known = now is not None and now.status is not Status.UNKNOWN
    if known or settled:
        return Status.FALSE, "NothingFound", "no open finding"
    return Status.UNKNOWN, "NotLongEnough", "it is not heard for long enough to be called healthy"


def _summary(found: Mapping[str, Words]) -> Words:
    for status, value in ((Status.TRUE, Status.FALSE), (Status.UNKNOWN, Status.UNKNOWN)):
        those = [(name, words) for name, words in found.items() if words[0] is status]
        if those:
            reasons = "And".join(Family(name).word for name, _ in those)
            reason = reasons if status is Status.TRUE else those[0][1][1]
            message = "; ".join(dict.fromkeys(words[2] for _, words in those))
            return value, reason, message[:MAX_MESSAGE]
    return Status.TRUE, "NothingFound", "no open finding"


def _dated(node: Node, name: str, what: Words, now: float) -> Condition:
    before = node.conditions.get(name)
    since = before.since if before is not None and before.status is what[0] else now
    return Condition(*what, since=since, beat=now)


def _camel(word: str) -> str:
    """A reason of the API is one word in CamelCase; the cause may be of a damaged annotation."""
    parts = re.split(r"[^A-Za-z0-9]+", word)[:8]
    return "".join(part[:1].upper() + part[1:] for part in parts)[:64] or "Unknown"
