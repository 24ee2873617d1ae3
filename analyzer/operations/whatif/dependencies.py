"""The dependency model (docs/method/what-if.md), from the first replica in the first step.

Source: OSDI'25, arXiv 2505.05713, section 4, and ByteDance-Seed/StragglerAnalysis. Operations of
our own runs, whose transfers name their micro-batch, are matched by it; foreign ones by position.
"""

from collections import defaultdict
from itertools import pairwise

from lockstep.analyzer.operations.whatif.graph import Graph, ModelError, Unit, sort
from lockstep.analyzer.operations.whatif.kinds import (
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
)
from lockstep.analyzer.operations.whatif.transfers import Transfers, match
from lockstep.analyzer.shapes.operations import Trace


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
        if backward and (place := self._compute.index(backward[0])) >= 2:
            for optype in ("backward-recv", "backward-send"):
                for op in self._of(optype)[:1]:
                    self.before[op].add(self._compute[place - 2])

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
        rank = {name: place for place, name in enumerate(names)}
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
