"""When so much is degraded at once that no node is touched: docs/method/node-conditions.md.

It is then rather the check, a driver roll-out or the fabric than so many nodes. Nothing but a human
closes the breaker again.
"""

import json
import math
from collections import Counter
from collections.abc import Collection, Sequence

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.words import FAMILY
from lockstep.watch.node_conditions.shapes import Breaker, Node, Settings, State, WatchState

LEAST_NODES = 2
"""Of a single node, "all nodes" says nothing."""
RESET = "reset"
"""What a human writes."""
MAX_WHY = 300


def breaker_after(
    nodes: Sequence[Node], told: WatchState, state: State, now: float, settings: Settings
) -> Breaker:
    """The breaker after what is told now; one that is open stays as it is."""
    if state.breaker.open:
        return state.breaker
    counts: Counter[str] = Counter()
    for node in nodes:
        faults = told.faults.get(node.name, ())
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
