"""Many counterfactuals at once: some operations as they were, the others ideal."""

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.operations.whatif.graph import Graph
from lockstep.analyzer.operations.whatif.simulate import simulate
from lockstep.analyzer.shapes.operations import Flags, Floats

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
    found = np.empty((choices, steps))
    ideal = np.broadcast_to(ideal, own.shape)
    for begin in range(0, choices, together):
        part = keep[begin : begin + together]
        times = np.empty((*own.shape[:2], len(part), steps))
        for number, choice in enumerate(part):
            times[:, :, number] = np.where(choice[:, :, None], own, ideal)
        flat = times.reshape(*own.shape[:2], -1)
        found[begin : begin + together] = simulate(graph, flat).reshape(len(part), steps)
    return found


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
    found = np.empty((len(keep), steps))
    for begin in range(0, len(keep), together):
        part = keep[begin : begin + together]
        mine = own[:, replicas[begin : begin + together]]
        times = np.empty((operations, lanes, len(part), steps))
        times[:] = ideal[:, :, None]
        times[:, 0] = np.where(part.T[:, :, None], mine, ideal)
        flat = times.reshape(operations, lanes, -1)
        found[begin : begin + together] = simulate(graph, flat).reshape(len(part), steps)
    return found
