"""Which computation a transfer belongs to, and which send meets which receive."""

from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.operations.whatif.kinds import COMPUTE, P2P, RECEIVES, SENDS
from lockstep.analyzer.shapes.operations import Ints, Trace

TOLERANCE = 50e-6
"""Seconds by which a transfer may seem to begin or end too early (docs/method/what-if.md)."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """Sends and receives, as numbers of operations; what was never launched has neither.

    Attributes:
        compute: Transfer -> the computation before a send, after a receive.
        posted: Receive -> the computation that must be done before.
        partner: Send -> receive, and back.
        streams: Whether transfers of a type and stage go one after the other; in our own runs a
            send waits for no other.
    """

    compute: dict[int, int]
    posted: dict[int, int]
    partner: dict[int, int]
    streams: bool


def match(trace: Trace) -> Transfers:
    """By chunk and micro-batch where transfers tell them, else by position.

    Position fails where stages have several chunks and only some of them receive.
    """
    told = trace.of(*P2P, *COMPUTE)
    if trace.of(*P2P).any() and (trace.global_chunk[told] >= 0).all():
        if (trace.micro_batch[told] >= 0).all():
            return _by_id(trace, trace.micro_batch)
        numbers = _by_order(trace)
        if numbers is not None:
            return _by_id(trace, numbers)
    return _by_position(trace)


def _by_order(trace: Trace) -> Ints | None:
    """The micro-batches of each chunk counted; None if a chunk has not one transfer for each."""
    numbers = np.full(len(trace.optype), -1)
    counts: dict[tuple[str, int], int] = {}
    for op in np.flatnonzero(trace.of(*P2P, *COMPUTE)):
        key = (str(trace.optype[op]), int(trace.global_chunk[op]))
        numbers[op] = counts.get(key, 0)
        counts[key] = numbers[op] + 1
    whole = all(
        count == counts.get((str(key[0]).split("-")[0] + "-compute", key[1]))
        for key, count in counts.items()
    )
    return numbers if whole else None


def _by_id(trace: Trace, numbers: Ints) -> Transfers:
    """Forward of chunk g sends to g + 1, backward to g - 1, the same micro-batch."""
    place = {
        (str(optype), int(chunk), int(micro_batch)): op
        for op, (optype, chunk, micro_batch) in enumerate(
            zip(trace.optype, trace.global_chunk, numbers, strict=True)
        )
    }
    compute: dict[int, int] = {}
    partner: dict[int, int] = {}
    for (optype, chunk, micro_batch), op in place.items():
        if optype in SENDS:
            before, receive, away = SENDS[optype]
            if (before, chunk, micro_batch) in place:
                compute[op] = place[before, chunk, micro_batch]
            other = place.get((receive, chunk + away, micro_batch))
            if other is not None:
                partner |= {op: other, other: op}
        elif optype in RECEIVES and (RECEIVES[optype], chunk, micro_batch) in place:
            compute[op] = place[RECEIVES[optype], chunk, micro_batch]
    return Transfers(compute, _as_posted(trace, compute), partner, streams=False)


def _as_posted(trace: Trace, compute: dict[int, int]) -> dict[int, int]:
    """The last computation that had ended when a receive was posted, in the middle of all steps.

    Schedules differ in how far ahead they post.
    """
    posted = {}
    orders = {stage: np.flatnonzero(trace.of(*COMPUTE) & (trace.stage == stage))
              for stage in range(trace.layout.pp)}  # fmt: skip
    for op in compute:
        if trace.optype[op] in RECEIVES:
            order = orders[int(trace.stage[op])]
            for other in order[order < compute[op]][::-1]:
                ahead = trace.start[op] - trace.start[other] - trace.duration[other]
                if np.median(ahead) >= -TOLERANCE:
                    posted[op] = int(other)
                    break
    return posted


def _by_position(trace: Trace) -> Transfers:
    """The i-th transfer belongs to the i-th computation and meets the i-th of the peer.

    A receive that begins after the last computation of its direction began, and a send that ends
    before the first one ended, was never launched. The first or last stage may lack its first
    receive.
    """
    start, end = trace.start[:, 0, 0], trace.end[:, 0, 0]
    compute: dict[int, int] = {}
    posted: dict[int, int] = {}
    launched: dict[tuple[str, int], list[int]] = {}
    stages = trace.layout.pp
    for stage in range(stages):
        here = {name: _ops(trace, name, stage) for name in (*P2P, *COMPUTE)}
        for receive, after in RECEIVES.items():
            served, ops = here[after], here[receive]
            if served:
                ops = [op for op in ops if start[op] <= start[served[-1]] + TOLERANCE]
            late = bool(
                stage in (0, stages - 1)
                and ops
                and served
                and start[ops[0]] > start[served[0]] + TOLERANCE
            )
            compute |= dict(zip(ops, served[1:] if late else served, strict=False))
            posted |= dict(zip(ops if late else ops[1:], served, strict=False))
            launched[receive, stage] = ops
        for send, (before, _, _) in SENDS.items():
            sent, ops = here[before], here[send]
            if sent:
                ops = [op for op in ops if end[op] >= end[sent[0]] - TOLERANCE]
            compute |= dict(zip(ops, sent, strict=False))
            launched[send, stage] = ops
    if trace.layout.vpp > 1:
        launched = {key: _inside(trace, key[0], ops, compute) for key, ops in launched.items()}
    partner: dict[int, int] = {}
    for send, (_, receive, away) in SENDS.items():
        for stage in range(stages):
            peers = launched[receive, (stage + away) % stages]
            for op, other in zip(launched[send, stage], peers, strict=False):
                partner |= {op: other, other: op}
    return Transfers(compute, posted, partner, streams=True)


def _ops(trace: Trace, optype: str, stage: int) -> list[int]:
    return [int(op) for op in np.flatnonzero((trace.optype == optype) & (trace.stage == stage))]


def _inside(trace: Trace, optype: str, ops: list[int], compute: dict[int, int]) -> list[int]:
    """Without the transfers at the model's outer ends, which have no peer."""
    away = {"forward-send": 1, "forward-recv": -1, "backward-send": -1, "backward-recv": 1}[optype]
    chunks = trace.layout.pp * trace.layout.vpp

    def peer(op: int) -> int:
        own = int(trace.global_chunk[op])
        if own < 0 and op in compute:
            own = int(trace.global_chunk[compute[op]])
        return own + away if own >= 0 else 0

    return [op for op in ops if 0 <= peer(op) < chunks]
