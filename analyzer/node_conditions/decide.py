"""What to do to which node: a pure function, which is what property tests drive.

It fails closed. While a human pauses it, the page of watch is old or the breaker is open, nothing
is written at all, heartbeats included: who reads an old heartbeat knows that nobody looks. While
too few nodes are heard, those that are silent become Unknown, and nothing else is written.
"""

from collections.abc import Sequence
from dataclasses import replace

from analyzer.node_conditions import breaker, budget, conditions, memory
from analyzer.node_conditions.actions import Action, Decision
from analyzer.node_conditions.shapes import Mode, Node, Settings, State, WatchState


def decide(
    nodes: Sequence[Node], told: WatchState | None, state: State, now: float, settings: Settings
) -> Decision:
    """Decide.

    Args:
        nodes: Those that may be touched, as the API has them now.
        told: The page of watch; None = it did not answer.
        state: Of the decision before.
        now: Unix seconds.
        settings: How far to go.
    """
    if told is None or (old := _old(told, now, settings)):
        why = "watch does not answer" if told is None else old
        return Decision((), memory.blind(state), settings.paused or why)
    state = memory.remembered(nodes, told, state, now, settings)
    heard = sum(memory.is_heard(node, told, settings) for node in nodes)
    if settings.paused:
        return Decision((), state, settings.paused)
    if not nodes:
        return Decision((), state, "no node may be touched")
    if state.breaker.open:
        return _open(state)
    if heard < max(1, min(settings.coverage * len(nodes), len(nodes) - 1)):
        silent = (conditions.silence(node, state, now, settings) for node in nodes)
        unknown = tuple(one for one in silent if one is not None)
        return Decision(unknown, state, f"only {heard} of {len(nodes)} nodes are heard")
    state = replace(state, breaker=breaker.breaker_after(nodes, told, state, now, settings))
    if state.breaker.open:
        return _open(state)
    writes = {
        node.name: made
        for node in nodes
        if (made := conditions.write(node, told, state, now, settings)) is not None
    }
    actions: tuple[Action, ...] = tuple(writes.values())
    if settings.mode is not Mode.TAINT:
        return Decision(actions, state)
    faults = {node.name: node.faults for node in nodes} | {
        name: made.faults for name, made in writes.items()
    }
    budgeted = budget.quarantines(nodes, faults, state, now, settings)
    if budgeted.state.breaker.open:
        return _open(budgeted.state)
    return Decision((*actions, *budgeted.actions), budgeted.state, "", budgeted.skipped)


def _open(state: State) -> Decision:
    return Decision((), state, f"the breaker is open: {state.breaker.why}")


def _old(told: WatchState, now: float, settings: Settings) -> str:
    if not told.answered:
        return "watch gets no answer from its Prometheus"
    if not abs(now - told.judged) <= settings.fresh:
        return f"the last cycle of watch was {now - told.judged:.0f} s ago"
    if not told.data_age <= settings.fresh:
        return "the newest scrape that watch judged is old"
    return ""
