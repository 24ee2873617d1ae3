"""What a rank does in the all-reduce sweep: one pass over all sizes a step (see Trainable)."""

from collections.abc import Mapping
from dataclasses import asdict
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lockstep.workloads.loop.trainable import Context, Counts, Update
from lockstep.workloads.measure.probe.gemm import Gemm, to_dict
from lockstep.workloads.measure.probe.judging import ProbeResult, decide, next_round
from lockstep.workloads.measure.probe.links import (
    LARGE_BYTES,
    SMALL_BYTES,
    History,
    Links,
    LinkTimes,
    Pair,
    fastest,
)
from lockstep.workloads.measure.probe.sweep import PATTERN, Sweep, expected, pattern, table
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.spec import Layout

MOST_TAGS = 24
"""Of the ring's short table; with more sizes those of the same power of two share one."""
TAG = "c0.m0"


class SweepPasses:
    """One rank's passes; see Trainable. Its evaluation is the probe, where one was asked for.

    Each step has the same work: the buffer is filled (forward), the right sums are worked out
    (backward), then every size is reduced, timed and checked (grad_sync).
    """

    def __init__(self, context: Context, sweep: Sweep, *, probe: bool) -> None:
        comm, layout = context.comm, context.spec.layout
        self.counts = Counts(1, 0, 0.0)  # a pass
        self.tells = context.rank == 0
        self._sweep, self._rank, self._ranks = sweep, context.rank, layout.world
        self._segment, self._device = context.segment, context.device
        self._places = [
            comm.collective("world-all-reduce", "world", tag) for tag in _tags(sweep.sizes)
        ]
        self._over_ranks = comm.collective("world-all-reduce", "world", "sweep.times")
        dtype = getattr(torch, sweep.dtype)
        self._values = torch.zeros(
            sweep.elements(sweep.sizes[-1]), dtype=dtype, device=context.device
        )
        self._right: list[int] = []
        self._seconds: list[NDArray[np.float64]] = []
        self._wrong = np.zeros(len(sweep.sizes), dtype=np.int64)
        self._nothing = torch.zeros((), device=context.device)
        self._probe = Probe(comm, layout, context.rank, context.device) if probe else None
        self._probed: list[dict[str, Any]] = []

    def batch(self, step: int) -> NDArray[np.int64]:
        """See Trainable: a pass needs no data."""
        return np.array([step])

    def train(self, batch: torch.Tensor) -> None:
        """See Trainable: this rank's own part of a pass."""
        with self._segment("forward", TAG):
            self._fill(self._values)
        with self._segment("backward", TAG):
            self._right = expected(self._ranks)

    def reduce(self) -> None:
        """See Trainable: the pass."""
        sweep = self._sweep
        # Per size the repetitions, and last the elements that were not the sum.
        seen = torch.zeros(len(sweep.sizes), sweep.repetitions + 1, dtype=torch.float64)
        for index, size in enumerate(sweep.sizes):
            values = self._values[: sweep.elements(size)]
            values.zero_()  # sums of sums would overflow
            self._timed(index, values)  # the ranks come together; not counted
            for repetition in range(sweep.repetitions):
                seen[index, repetition] = self._timed(index, values)
            self._fill(values)
            self._timed(index, values)
            seen[index, -1] = self._errors(values)
        over_ranks = seen.to(self._device)
        self._over_ranks.all_reduce(over_ranks)
        sums = over_ranks.cpu().numpy()
        self._seconds.append(sums[:, :-1] / self._ranks)
        self._wrong += sums[:, -1].astype(np.int64)

    def update(self, step: int) -> Update:
        """See Trainable: there are no weights."""
        return Update(0.0, self._nothing, self._nothing)

    def evaluate(self) -> Mapping[str, float]:
        """See Trainable: the probe; it has results, and no metric that a goal could ask for."""
        if self._probe is not None:
            self._probed.append(self._probe.run())
        return {}

    def results(self) -> dict[str, Any]:
        """See Trainable: `sweep`, a row a size, over all passes, and the last `probe`."""
        if not self._seconds:
            return {}
        rows = table(self._sweep, self._ranks, np.hstack(self._seconds), self._wrong)
        return {"sweep": rows, **({"probe": self._probed[-1]} if self._probed else {})}

    def _timed(self, index: int, values: torch.Tensor) -> float:
        """Seconds of one all-reduce, in place: arrival to completion on this rank."""
        self._settle()
        began = perf_counter()
        self._places[index].all_reduce(values)
        self._settle()
        return perf_counter() - began

    def _fill(self, values: torch.Tensor) -> None:
        for index, value in enumerate(pattern(self._rank)):
            values[index::PATTERN] = value

    def _errors(self, values: torch.Tensor) -> int:
        return sum(
            int((values[index::PATTERN] != value).sum()) for index, value in enumerate(self._right)
        )

    def _settle(self) -> None:
        """On a GPU the host runs ahead of the device; on CPU the call returns when it is done."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _tags(sizes: tuple[int, ...]) -> list[str]:
    if len(sizes) <= MOST_TAGS:
        return [f"size.{size}" for size in sizes]
    return [f"size.2^{size.bit_length() - 1}" for size in sizes]


class Probe:
    """One rank's part; all ranks call, and come to the same answer."""

    def __init__(self, comm: Comm, layout: Layout, rank: int, device: torch.device) -> None:
        self._nodes = layout.nodes
        self._links = Links(comm, layout, rank)
        self._gemm = Gemm(comm, rank, device)

    def run(self) -> dict[str, Any]:
        """What was found, as JSON types; times in seconds, bandwidths in bytes a second.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        finding, history = find(self._nodes, self._links)
        return {
            "nodes": self._nodes,
            "small_bytes": SMALL_BYTES,
            "large_bytes": LARGE_BYTES,
            "rounds": finding.rounds,
            "finding": _finding(finding),
            "links": _links(history),
            "gemm": to_dict(*self._gemm.measure()),
        }


def find(nodes: int, links: Links) -> tuple[ProbeResult, History]:
    """Round after round until the answer is there; every rank plans and decides alike.

    Raises:
        PeerLostError: The connection to a peer broke.
    """
    history: list[Mapping[Pair, LinkTimes]] = []
    while slots := next_round(nodes, history):
        history.append(links.measure(slots))
    return decide(nodes, history), history


def _finding(finding: ProbeResult) -> dict[str, Any]:
    culprits = [
        {
            "nodes": [f"node-{node}" for node in culprit.nodes],
            **asdict(culprit.slowness),
            "ratio": culprit.slowness.ratio,
        }
        for culprit in finding.culprits
    ]
    return {"kind": finding.kind.value, "culprits": culprits, "text": finding.text}


def _links(history: History) -> list[dict[str, Any]]:
    """Of every link the fastest of all rounds; `bandwidth` is of the slower direction."""
    return [
        {
            "ends": [f"node-{node}" for node in pair],
            "latency_seconds": one.latency.least,
            "there_seconds": one.there.least,
            "back_seconds": one.back.least,
            "bandwidth": LARGE_BYTES / one.transfer.least,
        }
        for pair, one in sorted(fastest(history).items())
    ]
