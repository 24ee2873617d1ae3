"""Counterfactual time: the steps as they would have gone with other times of operations.

One step graph at a time, or many choices of operations at once.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.operations.whatif.graph import Graph
from lockstep.analyzer.shapes.operations import Flags, Floats, Trace


@dataclass(frozen=True, slots=True)
class Timeline:
    """When each operation arrives and ends, (K, D, N) seconds since the step began."""

    start: Floats
    end: Floats


def simulate(graph: Graph, own: Floats, delay: Floats | None = None) -> Floats:
    """The time of N independent steps (docs/method/what-if.md).

    Args:
        graph: What waits for what.
        own: (K, D, N) seconds that each operation takes once its group has arrived.
        delay: (K, D, N) seconds of each operation between what it waits for and its start.

    Returns:
        (N,) seconds.
    """
    end = np.empty_like(own)
    _fill(graph, own, delay, list(end), None)
    steps: Floats = end[list(graph.last)].max(axis=(0, 1))
    return steps


def timeline(graph: Graph, own: Floats, delay: Floats | None = None) -> Timeline:
    """As `simulate`, with every operation's times."""
    start, end = np.empty_like(own), np.empty_like(own)
    _fill(graph, own, delay, list(end), list(start))
    return Timeline(start, end)


def retimed(trace: Trace, graph: Graph, own: Floats) -> Trace:
    """The trace that a run with these own times, (K, D, S) seconds, would have left."""
    times = timeline(graph, own)
    # Grouped operations may have ended before the last arrived, by clock skew: never backwards.
    return replace(trace, start=times.start, duration=np.maximum(times.end - times.start, 0.0))


def _fill(
    graph: Graph, own: Floats, delay: Floats | None, end: list[Floats], start: list[Floats] | None
) -> None:
    """One pass over the operations, all replicas and steps of one at a time.

    Rows are views taken once: indexing costs more than the arithmetic on a row.
    """
    before, values = graph.before, list(own)
    delays = None if delay is None else list(delay)
    arrival, common = np.empty_like(own[0]), np.empty_like(own[0])
    for unit in graph.units:
        first = True
        for op in unit.members:
            needed = before[op]
            # The first member's arrival is the group's so far: the others are compared with it.
            into = common if first else arrival
            if not needed:
                into.fill(0.0)
            elif len(needed) == 1:
                np.copyto(into, end[needed[0]])
            else:
                np.maximum(end[needed[0]], end[needed[1]], out=into)
                for other in needed[2:]:
                    np.maximum(into, end[other], out=into)
            if delays is not None:
                np.add(into, delays[op], out=into)
            if start is not None:
                start[op][...] = into
            if not first:
                np.maximum(common, arrival, out=common)
            first = False
        if unit.replicas:
            common[...] = common.max(axis=0)
        for op in unit.members:
            np.add(common, values[op], out=end[op])


MOST_BYTES = 32 * 2**20
"""Of the times that are simulated together: few enough for memory, many enough for speed."""


def step_seconds_with(graph: Graph, own: Floats, ideal: Floats, keep: Flags) -> Floats:
    """(C, S) seconds of a step, for each of C choices of operations.

    Args:
        graph: What waits for what.
        own: (K, D, S) seconds as they were.
        ideal: Seconds as they should be; broadcasts to `own`.
        keep: (C, K, D) whether an operation of a replica stays as it was.
    """
    choices, steps = len(keep), own.shape[2]
    together = max(1, MOST_BYTES // own.nbytes)
    seconds = np.empty((choices, steps))
    ideal = np.broadcast_to(ideal, own.shape)
    for begin in range(0, choices, together):
        part = keep[begin : begin + together]
        times = np.empty((*own.shape[:2], len(part), steps))
        for number, choice in enumerate(part):
            times[:, :, number] = np.where(choice[:, :, None], own, ideal)
        flat = times.reshape(*own.shape[:2], -1)
        seconds[begin : begin + together] = simulate(graph, flat).reshape(len(part), steps)
    return seconds


def of_replica(
    graph: Graph, own: Floats, ideal: Floats, keep: Flags, replicas: NDArray[np.int64]
) -> Floats:
    """As `step_seconds_with`, for C choices that keep operations of one replica each.

    The other replicas are ideal and so all alike: one stands for them. That makes a choice as
    cheap as two replicas.

    Args:
        graph: What waits for what.
        own: (K, D, S) seconds as they were.
        ideal: (K, 1, 1) seconds as they should be.
        keep: (C, K) whether an operation of the replica stays as it was.
        replicas: (C,) which replica.
    """
    operations, lanes, steps = len(own), min(2, own.shape[1]), own.shape[2]
    together = max(1, MOST_BYTES // (operations * lanes * steps * own.itemsize))
    seconds = np.empty((len(keep), steps))
    for begin in range(0, len(keep), together):
        part = keep[begin : begin + together]
        mine = own[:, replicas[begin : begin + together]]
        times = np.empty((operations, lanes, len(part), steps))
        times[:] = ideal[:, :, None]
        times[:, 0] = np.where(part.T[:, :, None], mine, ideal)
        flat = times.reshape(operations, lanes, -1)
        seconds[begin : begin + together] = simulate(graph, flat).reshape(len(part), steps)
    return seconds
