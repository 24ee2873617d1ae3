"""What to do to which node: a pure function, which is what property tests drive.

It fails closed. While a human pauses it, the page of watch is old or the breaker is open, nothing
is written at all, heartbeats included: who reads an old heartbeat knows that nobody looks. While
too few nodes are heard, those that are silent become Unknown, and nothing else is written.

Which nodes are quarantined and released: docs/method/node-conditions.md. Nothing applies it yet.

A release should also ask for a passed reference run, and a quarantine for slowness for a control:
there is neither yet, so slowness never quarantines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lockstep.collector.contract.words import FAMILY
from lockstep.watch.kubernetes import conditions
from lockstep.watch.kubernetes import conditions as breaker
from lockstep.watch.kubernetes import shapes as memory
from lockstep.watch.kubernetes.conditions import trip_on_storm
from lockstep.watch.kubernetes.shapes import (
    FATAL,
    Action,
    Decision,
    Known,
    Mode,
    Node,
    Quarantine,
    Release,
    Settings,
    State,
    Taint,
    WatchState,
)


def decide(
    nodes: Sequence[Node],
    watch_state: WatchState | None,
    state: State,
    now: float,
    settings: Settings,
) -> Decision:
    """Decide.

    Args:
        nodes: Those that may be touched, as the API has them now.
        watch_state: The page of watch; None = it did not answer.
        state: Of the decision before.
        now: Unix seconds.
        settings: How far to go.
    """
    if watch_state is None or (old := _old(watch_state, now, settings)):
        why = "watch does not answer" if watch_state is None else old
        return Decision((), memory.blind(state), settings.paused or why)
    state = memory.remembered(nodes, watch_state, state, now, settings)
    heard = sum(memory.is_heard(node, watch_state, settings) for node in nodes)
    if settings.paused:
        return Decision((), state, settings.paused)
    if not nodes:
        return Decision((), state, "no node may be touched")
    if state.breaker.open:
        return _open(state)
    if heard < max(1, min(settings.coverage * len(nodes), len(nodes) - 1)):
        silent = (conditions.silence(node, state, now, settings) for node in nodes)
        unknown = tuple(one for one in silent if one is not None)
        return Decision(unknown, state, f"only {heard} of {len(nodes)} nodes answer")
    state = replace(state, breaker=breaker.breaker_after(nodes, watch_state, state, now, settings))
    if state.breaker.open:
        return _open(state)
    writes = {
        node.name: made
        for node in nodes
        if (made := conditions.write(node, watch_state, state, now, settings)) is not None
    }
    actions: tuple[Action, ...] = tuple(writes.values())
    if settings.mode is not Mode.TAINT:
        return Decision(actions, state)
    faults = {node.name: node.faults for node in nodes} | {
        name: made.faults for name, made in writes.items()
    }
    budgeted = quarantines(nodes, faults, state, now, settings)
    if budgeted.state.breaker.open:
        return _open(budgeted.state)
    return Decision((*actions, *budgeted.actions), budgeted.state, "", budgeted.skipped)


def _open(state: State) -> Decision:
    return Decision((), state, f"the breaker is open: {state.breaker.why}")


def _old(watch_state: WatchState, now: float, settings: Settings) -> str:
    if not watch_state.answered:
        return "watch gets no answer from its Prometheus"
    if not abs(now - watch_state.judged) <= settings.fresh:
        return f"the last cycle of watch was {now - watch_state.judged:.0f} s ago"
    if not watch_state.data_age <= settings.fresh:
        return "the newest scrape that watch judged is old"
    return ""


Faults = Mapping[str, Known]


@dataclass(frozen=True, slots=True)
class Budgeted:
    """What the budget allows.

    Attributes:
        skipped: Node -> why it is not quarantined although it should be.
    """

    actions: tuple[Taint | Release, ...]
    state: State
    skipped: Mapping[str, str]


def quarantines(
    nodes: Sequence[Node], faults: Mapping[str, Faults], state: State, now: float,
    settings: Settings,
) -> Budgeted:  # fmt: skip
    """Quarantine and release within the budget.

    Args:
        nodes: All that may be touched.
        faults: Node -> what is written on it, this decision included.
        state: With a breaker that is closed.
        now: Unix seconds.
        settings: The budget.
    """
    want = {
        node.uid: fatal
        for node in nodes
        if not node.tainted and (fatal := _fatal(faults[node.name], state.breaker.at))
    }
    wanted = {
        uid: when
        for uid, when in state.wanted.items()
        if uid in want or now - when < settings.new_seconds
    }
    wanted = dict.fromkeys(want, now) | wanted
    breaker = trip_on_storm(nodes, wanted.values(), state.breaker, now, settings)
    state = replace(state, wanted=wanted, breaker=breaker)
    if breaker.open:
        return Budgeted((), state, {})
    actions: list[Taint | Release] = []
    skipped: dict[str, str] = {}
    # Counted before the releases: what goes now makes room in the next decision.
    tainted = [node for node in nodes if node.tainted]
    away = sum(node.away or node.tainted for node in nodes)
    recent = sum(
        now - when < settings.new_seconds for node in nodes for when in _times(node.quarantine)
    )
    runs = {
        known.source for node in tainted for known in faults[node.name].values() if known.source
    }
    racks = {node.rack for node in tainted if node.rack}
    most = min(max(1, int(settings.share * len(nodes))), settings.cap)
    for node in sorted(nodes, key=lambda one: (wanted.get(one.uid, now), one.name)):
        if _released(node, faults[node.name], state, now, settings):
            actions.append(Release(node, _after(node.quarantine, now)))
        holding = want.get(node.uid)
        if holding is None:
            continue
        here = {known.source for known in holding.values() if known.source}
        why = _refused(node, holding, now, settings)
        if not why and node.away:
            why = "it is cordoned or not ready already"
        if not why and away >= most:
            why = f"{away} nodes are away, {most} may be"
        if not why and recent >= settings.new:
            why = f"{recent} nodes were quarantined in the last minutes"
        if not why and (here & runs or node.rack in racks):
            why = "another node of its run or rack is quarantined"
        if why:
            skipped[node.name] = why
            continue
        away, recent = away + 1, recent + 1
        runs |= here
        racks |= {node.rack} - {""}
        first = min(holding.values(), key=lambda known: (known.since, known.cause))
        before = _times(node.quarantine)
        made = Quarantine(now, frozenset(faults[node.name]), before)
        actions.append(Taint(node, FAMILY[first.cause], made))
    return Budgeted(tuple(actions), state, skipped)


def _fatal(faults: Faults, reset: float) -> Faults:
    return {
        fault: known
        for fault, known in faults.items()
        if known.cause in FATAL and known.since >= reset
    }


def _refused(node: Node, fatal: Faults, now: float, settings: Settings) -> str:
    """Why a human's will, or history, forbids it."""
    done = node.quarantine
    # Our annotation without our taint: a human took it away.
    if done.since is not None and now - done.since < settings.again and fatal.keys() <= done.why:
        return "a human released it from the same fault"
    return ""


def _released(node: Node, faults: Faults, state: State, now: float, settings: Settings) -> bool:
    """Only what our own annotation says is ours, once nothing holds it any more."""
    done = node.quarantine
    if done.since is None or not node.ours or faults:
        return False
    times = [*done.before, done.since]
    if sum(now - when < settings.week for when in times) >= settings.thrice:
        return False
    repeats: int = sum(done.since - when < settings.again for when in done.before)
    return now - state.calm.get(node.uid, now) >= settings.healthy * float(1 << repeats)


def _times(done: Quarantine) -> tuple[float, ...]:
    return (*done.before, *(() if done.since is None else (done.since,)))[-8:]


def _after(done: Quarantine, now: float) -> Quarantine:
    return Quarantine(None, frozenset(), _times(done), now)
