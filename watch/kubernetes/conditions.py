"""The conditions of a node, whether they are worth a write, and the breaker."""

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.kubernetes import HEALTHY, Family
from lockstep.collector.contract.words import FAMILY
from lockstep.watch.kubernetes.shapes import (
    OLDER,
    Breaker,
    Condition,
    Fault,
    Known,
    Node,
    Settings,
    State,
    Status,
    WatchState,
    Write,
    is_heard,
)

# The breaker opens when too much is degraded at once (docs/method/node-conditions.md): the cause is
# then the check, a driver roll-out or the fabric. Only a human closes it again.

LEAST_NODES = 2
"""Of a single node, "all nodes" says nothing."""
RESET = "reset"
"""What a human writes."""
MAX_WHY = 300


def breaker_after(
    nodes: Sequence[Node], watch_state: WatchState, state: State, now: float, settings: Settings
) -> Breaker:
    """The breaker after what is told now; one that is open stays as it is."""
    if state.breaker.open:
        return state.breaker
    counts: Counter[str] = Counter()
    for node in nodes:
        faults = watch_state.faults.get(node.name, ())
        new = [one for one in faults if state.first[node.uid, one.id] >= state.breaker.at]
        counts.update({FAMILY[one.cause].word for one in new if one.cause in FAMILY})
    for family, count in counts.most_common(1):
        if count >= LEAST_NODES and count > settings.same * len(nodes):
            return Breaker(True, now, f"{family} on {count} of {len(nodes)} nodes at once")
    return state.breaker


def trip_on_storm(
    nodes: Sequence[Node], wanted: Collection[float], breaker: Breaker, now: float,
    settings: Settings,
) -> Breaker:  # fmt: skip
    """The breaker after decisions to quarantine; `wanted` are their times."""
    new = [when for when in wanted if when > now - settings.new_seconds and when >= breaker.at]
    if len(new) >= LEAST_NODES and len(new) > settings.storm * len(nodes):
        minutes = settings.new_seconds / 60
        why = f"{len(new)} of {len(nodes)} nodes to be quarantined within {minutes:.0f} minutes"
        return Breaker(True, now, why)
    return breaker


def from_text(text: str | None, before: Breaker, now: float) -> Breaker:
    """What the lease says: an annotation that a human may have written.

    Args:
        text: None = there is no such annotation.
        before: As this process knew it: an annotation that is gone does not close what is open.
        now: When a reset counts from.
    """
    if text is None:
        return before
    if text.strip() == RESET:
        return Breaker(False, now, "reset by a human")
    try:
        tree = bounded_json.loads(text)
        found = Breaker(bool(tree["open"]), float(tree["at"]), str(tree["why"])[:MAX_WHY])
        if not math.isfinite(found.at):
            raise ValueError
    except (ValueError, TypeError, KeyError):
        # What is not understood must not set anything free.
        return before if before.open else Breaker(True, now, "its annotation is not understood")
    # A lease that was restored from a backup, or lost: what this process knows is kept.
    return found if found.open or found.at >= before.at else before


def to_text(breaker: Breaker) -> str:
    """As the lease says it."""
    tree = {"open": breaker.open, "at": breaker.at, "why": breaker.why}
    return json.dumps(tree, allow_nan=False)


MAX_MESSAGE = 1024
"""Characters (docs/method/node-conditions.md)."""
MAX_VALUE = 160
MAX_FAULTS = 64
"""Written on a node: an annotation has 256 KiB at most, and nobody reads more."""
MANY = "TooManyFaults"
UNTOLD = {
    OLDER: "what was open before the breaker was reset is not written, but it is not over either",
    MANY: "more is open than is written",
}
"""Why a fault that is open is not written, for people: its family is Unknown, never healthy."""
NOT_LOOKED_AT = (
    "watch could not look at all of it: a collective of a rank is not timed, or telemetry that was"
    " there is missing; lockstep_run_status says which"
)


def write(
    node: Node, watch_state: WatchState, state: State, now: float, settings: Settings
) -> Write | None:
    """The patch of one node; None = what is written is right, and fresh enough."""
    heard = is_heard(node, watch_state, settings)
    ended = {
        fault: known
        for fault, known in node.faults.items()
        if now - state.gone.get((node.uid, fault), now) >= settings.settle
    }
    room = max(0, MAX_FAULTS - len(node.faults) + len(ended))
    new = [one for one in watch_state.faults.get(node.name, ()) if one.id not in node.faults]
    since = {one.id: state.first[node.uid, one.id] for one in new}
    begun = {
        one.id: Known(since[one.id], one.cause, one.run, value(one))
        for one in new
        if since[one.id] >= state.breaker.at
    }
    begun = dict(sorted(begun.items())[:room])
    untold = {
        FAMILY.get(one.cause, Family.STRAGGLER): OLDER if since[one.id] < state.breaker.at else MANY
        for one in new
        if one.id not in begun
    }
    faults = {name: one for name, one in node.faults.items() if name not in ended} | begun
    look = _Look(
        heard=heard,
        looked=node.name in watch_state.looked,
        settled=now - state.heard.get(node.uid, now) >= settings.settle,
        calm=now - state.calm.get(node.uid, now) >= settings.settle,
        untold=untold,
    )
    wanted = _wanted(node, faults.values(), look)
    conditions = {name: _dated(node, name, what, now) for name, what in wanted.items()}
    return _worth(Write(node, conditions, faults, begun, ended), now, settings)


def silence(node: Node, state: State, now: float, settings: Settings) -> Write | None:
    """The patch of a node while too few are heard to tell a finding: Unknown, and nothing else.

    It must be silent for a while: one page that says nothing about a node proves nothing. What is
    degraded stays so, since silence ends no fault.
    """
    if now - state.silent.get(node.uid, now) < settings.fresh:
        return None
    look = _Look(heard=False, looked=False, settled=False, calm=False, untold={})
    conditions = {
        name: _dated(node, name, what, now)
        for name, what in _wanted(node, node.faults.values(), look).items()
        if what[0] is Status.UNKNOWN
    }
    return _worth(Write(node, conditions, node.faults), now, settings)


def _worth(made: Write, now: float, settings: Settings) -> Write | None:
    """It, where it says something new or its heartbeat is due."""
    before = made.node.conditions
    oldest = min((before[name].beat for name in made.conditions if name in before), default=now)
    changed = made.tells or any(
        _said(before.get(name)) != _said(one) for name, one in made.conditions.items()
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


@dataclass(frozen=True, slots=True)
class _Look:
    """What is known of a node beside its faults.

    Attributes:
        heard: Whether its collector was scraped lately.
        looked: Whether watch could look at everything that it looks at.
        settled: Whether that is so for long enough.
        calm: Whether besides nothing was told about it for as long.
        untold: Family -> why a fault that is open is not written.
    """

    heard: bool
    looked: bool
    settled: bool
    calm: bool
    untold: Mapping[Family, str]


def _wanted(node: Node, faults: Iterable[Known], look: _Look) -> Mapping[str, Words]:
    by_family: dict[Family, list[Known]] = {}
    for known in faults:
        by_family.setdefault(FAMILY.get(known.cause, Family.STRAGGLER), []).append(known)
    found = {
        family.value: _of_family(family, by_family.get(family, []), node, look) for family in Family
    }
    return {HEALTHY: _summary(found), **found}


def _of_family(family: Family, faults: list[Known], node: Node, look: _Look) -> Words:
    now = node.conditions.get(family)
    if faults:
        causes = "".join(_camel(cause) for cause in sorted({one.cause for one in faults}))
        return Status.TRUE, causes, "; ".join(sorted({one.value for one in faults}))[:MAX_MESSAGE]
    untold = look.untold.get(family)
    if untold is None and now is not None and now.reason == OLDER and not look.calm:
        untold = OLDER  # a watch that lost its state tells the same again in ten minutes
    if untold is not None:
        return Status.UNKNOWN, untold, UNTOLD[untold]
    if not look.heard:
        return Status.UNKNOWN, "NotHeard", "its collector was not scraped lately"
    if not look.looked:
        return Status.UNKNOWN, "NotLookedAt", NOT_LOOKED_AT
    known = now is not None and now.status is not Status.UNKNOWN
    if known or look.settled:
        return Status.FALSE, "NothingFound", "no open finding"
    return Status.UNKNOWN, "NotLongEnough", "it has not answered for long enough to judge it"


def _summary(words_of: Mapping[str, Words]) -> Words:
    for status, value in ((Status.TRUE, Status.FALSE), (Status.UNKNOWN, Status.UNKNOWN)):
        those = [(name, words) for name, words in words_of.items() if words[0] is status]
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


def _said(condition: Condition | None) -> tuple[Status, str] | None:
    return None if condition is None else (condition.status, condition.reason)


def _camel(word: str) -> str:
    """A reason of the API is one word in CamelCase; the cause may be of a damaged annotation."""
    parts = re.split(r"[^A-Za-z0-9]+", word)[:8]
    return "".join(part[:1].upper() + part[1:] for part in parts)[:64] or "Unknown"
