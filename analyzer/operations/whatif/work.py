"""Operations taken apart: what they had to do, what they waited for peers, what came before.

And what each would take if nobody straggled: as published, and by stratum.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.operations.whatif.graph import COMPUTE, MEAN_IDEAL, Graph
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
    last = times[ops[0]]
    for op in ops[1:]:
        last = np.maximum(last, times[op])
    return last


def published_ideals(trace: Trace, own: Floats) -> Floats:
    """(K, 1, 1) seconds: one value a type, over all steps, replicas and stages.

    The mean for computation, optimizer and gc, the median for the others (OSDI'25, section 4). A
    stage that is heavier by design counts as straggling.
    """
    ideal = np.empty(len(trace.optype))
    for optype in np.unique(trace.optype):
        rows = trace.optype == optype
        middle = np.mean if optype in MEAN_IDEAL else np.median
        ideal[rows] = middle(own[rows])
    return ideal[:, None, None]


def stratum_ideals(trace: Trace, own: Floats) -> Floats:
    """(K, D, S) seconds, our own: the median of the stratum (stage, chunk, type), times the work.

    Heavy stages and long sequences are as ideal as they can be: they are structure, no fault.
    """
    base = stratum_medians(trace, own)
    ideal = np.broadcast_to(base, own.shape).copy()
    compute = trace.of(*COMPUTE)
    factor = work_factors(trace, own[compute] / base[compute]) if base[compute].all() else None
    if factor is not None:
        ideal[compute] *= factor[np.searchsorted(_micro_batches(trace), trace.micro_batch[compute])]
    return ideal


def stratum_medians(trace: Trace, own: Floats) -> Floats:
    """(K, 1, 1) seconds: of a stage, chunk and type, the middle replica's median.

    Of an even number of replicas the lower middle: of two, a slow one would be half of the norm.
    """
    keys = list(zip(trace.stage.tolist(), trace.chunk.tolist(), trace.optype.tolist(), strict=True))
    place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    number = np.array([place[key] for key in keys])
    middle = (own.shape[1] - 1) // 2
    medians = [np.median(own[number == index], axis=(0, 2)) for index in range(len(place))]
    lower = np.array([np.partition(each, middle)[middle] for each in medians])
    spread: Floats = lower[number][:, None, None]
    return spread


def work_factors(trace: Trace, ratio: Floats) -> Floats | None:
    """(M, D, S) how much longer each micro-batch is than usual; None where it cannot be determined.

    The same micro-batch passes every stage, forward and backward: what is longer on most of them
    is longer itself. Of two stages the lower middle is taken, because a slow worker makes half of
    a micro-batch's passes long. A replica that is slow on every stage looks like one with more
    work.

    Args:
        trace: The operations.
        ratio: (K, D, S) own time over the stratum's median, of the computations alone.
    """
    numbers = trace.micro_batch[trace.of(*COMPUTE)]
    every = _micro_batches(trace)
    rows, uneven = divmod(len(numbers), len(every))
    if trace.layout.pp < 2 or every[0] < 0 or uneven or np.ptp(np.bincount(numbers)[every]):
        return None
    grouped = ratio[np.argsort(numbers, kind="stable")]
    grouped = grouped.reshape(len(every), rows, *ratio.shape[1:])
    if trace.layout.pp == 2:
        middle = (rows - 1) // 2
        factor: Floats = np.partition(grouped, middle, axis=1)[:, middle]
    else:
        factor = np.median(grouped, axis=1)
    return factor


def _micro_batches(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.unique(trace.micro_batch[trace.of(*COMPUTE)])
