"""What is remembered from one decision to the next."""

from collections.abc import Sequence
from dataclasses import replace

from lockstep.collector.contract.kubernetes import Family
from lockstep.collector.contract.words import FAMILY
from lockstep.watch.node_conditions.shapes import Fault, Node, Settings, State, WatchState

OLDER = "OlderThanReset"
"""Reason of a condition: the memory of what was open before a reset, for whoever comes after us."""


def remembered(
    nodes: Sequence[Node], told: WatchState, state: State, now: float, settings: Settings
) -> State:
    """The state, with what is told now.

    What is absent counts only while its node is heard: silence ends no fault and proves no health.
    """
    met = {*state.heard, *state.silent, *(uid for uid, _ in state.first)}
    first, gone, heard, calm, silent = {}, {}, {}, {}, {}
    for node in nodes:
        open_now = {fault.id: fault for fault in told.faults.get(node.name, ())}
        for fault, one in open_now.items():
            key = node.uid, fault
            written = node.faults.get(fault)
            # Of a node that is not met yet, its condition is all that a restart leaves.
            older = node.uid not in met and _is_older(one, node)
            began = float("-inf") if older else now
            first[key] = written.since if written else state.first.get(key, began)
        if not is_heard(node, told, settings):
            silent[node.uid] = state.silent.get(node.uid, now)
            continue
        heard[node.uid] = state.heard.get(node.uid, now)
        for fault in node.faults.keys() - open_now.keys():
            gone[node.uid, fault] = state.gone.get((node.uid, fault), now)
        if not open_now:
            calm[node.uid] = state.calm.get(node.uid, now)
    return replace(state, first=first, gone=gone, heard=heard, calm=calm, silent=silent)


def blind(state: State) -> State:
    """The state after a look that told nothing: what is absent is timed anew."""
    return replace(state, gone={}, heard={}, calm={}, silent={})


def is_heard(node: Node, told: WatchState, settings: Settings) -> bool:
    """Whether the collector of a node was scraped lately; both times are of Prometheus' clock."""
    return told.judged - told.heard.get(node.name, float("-inf")) <= settings.fresh


def _is_older(fault: Fault, node: Node) -> bool:
    """Whether the node says of the fault's family that what is open is older than a reset."""
    said = node.conditions.get(FAMILY.get(fault.cause, Family.STRAGGLER))
    return said is not None and said.reason == OLDER
