"""The dependency model (docs/method/what-if.md), from the first replica in the first step.

Source: OSDI'25, arXiv 2505.05713, section 4, and ByteDance-Seed/StragglerAnalysis. Operations of
our own runs, whose transfers name their micro-batch, are matched by it; foreign ones by position.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lockstep.analyzer.operations.whatif.graph import (
    BACKWARD,
    CLIP,
    COMPUTE,
    EMBEDDING,
    FORWARD,
    GATHER,
    GC,
    GROUPED,
    LAYERNORM,
    LOAD,
    MODELLED,
    OPTIMIZER,
    OVER_REPLICAS,
    OVERLAPPED,
    P2P,
    RECEIVES,
    SCATTER,
    SENDS,
    TAIL,
    Graph,
    ModelError,
    Unit,
    sort,
)
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
    rows = trace.of(*P2P, *COMPUTE)
    if trace.of(*P2P).any() and (trace.global_chunk[rows] >= 0).all():
        if (trace.micro_batch[rows] >= 0).all():
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


def build(trace: Trace) -> Graph:
    """The model of a trace.

    Raises:
        ModelError: The operations do not make the step of a pipeline.
    """
    unknown = sorted(set(trace.optype.tolist()) - MODELLED)
    if unknown:
        raise ModelError(f"the model has no place for the operation {', '.join(unknown)}")
    computing = set(trace.stage[trace.of(*COMPUTE)].tolist())
    if idle := sorted(set(range(trace.layout.pp)) - computing):
        raise ModelError(f"stage {idle[0]} has neither forward-compute nor backward-compute")
    transfers = match(trace)
    stages = [_Stage(trace, stage, transfers) for stage in range(trace.layout.pp)]
    before = [tuple(sorted(stage.before[op])) for stage in stages for op in stage.operations]
    units = sort(before, _units(trace, transfers))
    last = tuple(op for stage in stages for op in stage.last)
    return Graph(tuple(before), units, last)


class _Stage:
    """What waits for what on one stage."""

    def __init__(self, trace: Trace, stage: int, transfers: Transfers) -> None:
        self.operations = [int(op) for op in (trace.stage == stage).nonzero()[0]]
        self.before: dict[int, set[int]] = {op: set() for op in self.operations}
        self._trace = trace
        self._by_type: dict[str, list[int]] = defaultdict(list)
        for op in self.operations:
            self._by_type[str(trace.optype[op])].append(op)
        self._compute = self._of(*COMPUTE)
        ends = trace.start[:, 0, 0] + trace.duration[:, 0, 0]
        self._computed = max(self._compute, key=lambda op: float(ends[op]))
        self._chain(self._compute)
        self._transfers(transfers)
        self._data_parallel()
        self.last = self._tail()
        self._head()

    def _of(self, *optypes: str) -> list[int]:
        """In order; operations are numbered by start."""
        return sorted(op for optype in optypes for op in self._by_type.get(optype, ()))

    def _chain(self, ops: list[int]) -> None:
        for one, other in pairwise(ops):
            self.before[other].add(one)

    def _transfers(self, transfers: Transfers) -> None:
        """Rules 2 to 4."""
        if transfers.streams:
            for optype in P2P:
                self._chain(self._of(optype))
        for op in self._of(*RECEIVES):
            if op in transfers.compute:
                self.before[transfers.compute[op]].add(op)
            if op in transfers.posted:
                self.before[op].add(transfers.posted[op])
        for op in self._of(*SENDS):
            if op in transfers.compute:
                self.before[op].add(transfers.compute[op])
        if transfers.streams:
            self._first_backward()

    def _first_backward(self) -> None:
        """Rule 4."""
        backward = self._of(BACKWARD)
        if backward and (index := self._compute.index(backward[0])) >= 2:
            for optype in ("backward-recv", "backward-send"):
                for op in self._of(optype)[:1]:
                    self.before[op].add(self._compute[index - 2])

    def _data_parallel(self) -> None:
        """Rules 5 to 7; gathers after the last computation are a part of the tail."""
        late = self._start(self._computed)
        self._early = [op for op in self._of(GATHER) if self._start(op) < late]
        self._chain(sorted([*self._early, *self._of(SCATTER)]))
        gathered = {int(self._trace.chunk[op]): op for op in self._early}
        first: dict[int, int] = {}
        for op in self._of(FORWARD):
            first.setdefault(int(self._trace.chunk[op]), op)
        if len(gathered) == 1 and len(first) == 1:
            gathered = dict.fromkeys(first, *gathered.values())
        for chunk, op in gathered.items():
            if chunk in first:
                self.before[first[chunk]].add(op)
        if self._by_type.get(OVERLAPPED):
            done = {int(self._trace.chunk[op]): op for op in self._of(BACKWARD)}
            for op in self._of(SCATTER):
                if (computed := done.pop(int(self._trace.chunk[op]), None)) is not None:
                    self.before[op].add(computed)

    def _tail(self) -> list[int]:
        """Rule 8, and what our own runs do after the optimizer."""
        overlapped = bool(self._by_type.get(OVERLAPPED))
        names = [name for name in TAIL if not (overlapped and name == SCATTER)]
        late = [op for op in self._of(GATHER) if op not in self._early]
        tail = [op for op in (*self._of(*names), *late) if op > self._compute[0]]
        rank = {name: index for index, name in enumerate(names)}
        if overlapped:
            tail.sort(key=lambda op: (rank.get(str(self._trace.optype[op]), len(rank)), op))
        else:
            # As they began: our runs reduce gradients before those of the embedding.
            tail.sort(key=lambda op: (
                self._start(op), rank.get(str(self._trace.optype[op]), len(rank)), op,
            ))  # fmt: skip
        self._chain([self._computed, *tail])
        if overlapped and (scatters := self._of(SCATTER)):
            for op in self._of(LAYERNORM):
                self.before[op].add(scatters[-1])
        optimizers = [op for op in self._of(OPTIMIZER) if op in tail]
        if not tail:
            return [self._computed]
        return tail[tail.index(optimizers[-1]) :] if optimizers else tail[-1:]

    def _head(self) -> None:
        """Nothing of a step begins before its data is there, and the step before is over."""
        head = [op for op in self._of(LOAD, CLIP, OPTIMIZER, GC) if op < self._compute[0]]
        if head:
            for op in self.operations:
                if op not in head and not self.before[op]:
                    self.before[op].add(head[-1])
            self._chain(head)

    def _start(self, op: int) -> float:
        return float(self._trace.start[op, 0, 0])


def _units(trace: Trace, transfers: Transfers) -> list[Unit]:
    """Communication groups (docs/method/what-if.md); what has no peer is alone."""
    together: dict[tuple[object, ...], list[int]] = defaultdict(list)
    ends = (0, trace.layout.pp - 1)
    for op, optype in enumerate(trace.optype.tolist()):
        seq, stage = int(trace.seq[op]), int(trace.stage[op])
        if op in transfers.partner:
            key: tuple[object, ...] = ("pair", min(op, transfers.partner[op]))
        elif optype == CLIP or (optype == EMBEDDING and stage in ends):
            key = (optype, seq)
        else:
            key = ("alone", op)
        together[key].append(op)
    return [
        Unit(
            tuple(members),
            str(trace.optype[members[0]]) in GROUPED,
            str(trace.optype[members[0]]) in OVER_REPLICAS,
        )
        for members in together.values()
    ]
