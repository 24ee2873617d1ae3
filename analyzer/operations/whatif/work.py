"""Operations taken apart: what they had to do, what they waited for peers, what came before."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.operations.whatif.graph import Graph
from lockstep.analyzer.shapes.operations import Floats, Trace

SKEW = -0.010
"""Seconds; a time at or below it is no clock skew but a gap of the model, and counts as 0
(OSDI'25 artefact)."""


@dataclass(frozen=True, slots=True)
class Work:
    """The times of a Trace's operations, (K, D, S) seconds.

    Attributes:
        own: Of local operations the duration, of grouped ones the transfer: end minus the latest
            arrival in the group.
        blocking: From arrival to the latest arrival in the group; 0 for local operations.
    """

    own: Floats
    blocking: Floats


def split_durations(trace: Trace, graph: Graph) -> Work:
    """Durations as own time and blocking (docs/method/what-if.md)."""
    own = trace.duration.copy()
    blocking = np.zeros_like(own)
    for unit in graph.units:
        if not unit.grouped:
            continue
        members = list(unit.members)
        arrival = trace.start[members]
        last = arrival.max(axis=0)
        if unit.replicas:
            last = last.max(axis=0, keepdims=True)
        blocking[members] = last - arrival
        own[members] -= blocking[members]
    own[own <= SKEW] = 0.0
    return Work(own, blocking)


def launch_delay(trace: Trace, graph: Graph) -> Floats:
    """(K, D, S) seconds from the end of all that an operation waits for to its start.

    Host work that the trace does not show, as loading data.
    """
    delay = trace.start.copy()
    end = trace.end
    for op, before in enumerate(graph.before):
        if before:
            delay[op] -= latest(end, before)
    delay[delay <= SKEW] = 0.0
    return delay


def latest(times: Floats | Sequence[Floats], ops: Sequence[int]) -> Floats:
    """The elementwise latest of some rows."""
    found = times[ops[0]]
    for op in ops[1:]:
        found = np.maximum(found, times[op])
    return found
