"""Tagged collectives over torch.distributed, each recorded with arrival and completion."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from time import monotonic_ns
from typing import Any

import torch
import torch.distributed as dist

from lockstep.collector.contract.ring import FLAG_COMPLETION_IS_UPPER_BOUND, FLAG_OVERLAPPED
from lockstep.workloads.measure.formats import Timer
from lockstep.workloads.measure.gloo_threads import rest_at_exit
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.ring import GROUP_INDEX, OP_INDEX

# torch 2.13 has new names for these and warns of the old ones.
_ALL_GATHER = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
_REDUCE_SCATTER = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
Segment = Callable[[str, str], AbstractContextManager[Any]]
"""A `with` block around the computation of (`forward` or `backward`, tag of the micro-batch)."""
BESIDE = FLAG_COMPLETION_IS_UPPER_BOUND | FLAG_OVERLAPPED


class PeerLostError(RuntimeError):
    """A collective failed because another rank is gone."""


class Collective:
    """One place in the program that communicates: its op, group and tag are looked up once.

    Blocking calls are timed by two clock reads around the call (docs/method/collecting.md): on gloo
    the call returns when the operation has completed on this rank. Every call raises PeerLostError
    when the connection to a peer broke.
    """

    __slots__ = (
        "_group_index", "_name", "_op", "_recorder", "_tag", "_timers", "_writer", "group", "op",
        "size",
    )  # fmt: skip

    def __init__(
        self, recorder: StepRecorder, group: dist.ProcessGroup, op: str, group_name: str, tag: str,
        timers: tuple[Timer, ...] = (),
    ) -> None:  # fmt: skip
        self.group = group
        self.op = op
        self._timers = timers
        self.size = group.size()
        self._recorder = recorder
        self._writer = recorder.writer
        self._op = OP_INDEX[op]
        self._group_index = GROUP_INDEX[group_name]
        self._tag = recorder.writer.tag(tag)
        self._name = f"{op} {tag!r} on group {group_name}"

    def all_reduce(
        self, tensor: torch.Tensor, reduction: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM
    ) -> None:
        """Reduce over the group, in place."""
        self._timed(tensor, dist.all_reduce, tensor, reduction, self.group)

    def all_gather(self, output: torch.Tensor, part: torch.Tensor) -> None:
        """`output` becomes the parts of all ranks, one after the other along dimension 0."""
        self._timed(output, _ALL_GATHER, output, part, self.group)

    def reduce_scatter(self, output: torch.Tensor, whole: torch.Tensor) -> None:
        """`output` becomes this rank's part, along dimension 0, of the sum over the group."""
        self._timed(whole, _REDUCE_SCATTER, output, whole, dist.ReduceOp.SUM, self.group)

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Every rank gets what the group's rank `source` has."""
        rank = dist.get_global_rank(self.group, source)
        self._timed(tensor, dist.broadcast, tensor, rank, self.group)

    def run(self, tensor: torch.Tensor, call: Callable[[], None]) -> None:
        """Record transfers of the caller's own as one operation; `tensor` is what they carry."""
        self._timed(tensor, call)

    def start_all_reduce(self, tensor: torch.Tensor) -> "Pending":
        """Begin to sum over the group, in place."""
        begin = partial(dist.all_reduce, tensor, group=self.group, async_op=True)
        return self.start(begin, tensor, tells_end=True)

    def start_all_gather(self, output: torch.Tensor, part: torch.Tensor) -> "Pending":
        """Begin an `all_gather`."""
        begin = partial(_ALL_GATHER, output, part, group=self.group, async_op=True)
        return self.start(begin, output, tells_end=True)

    def start_reduce_scatter(self, output: torch.Tensor, whole: torch.Tensor) -> "Pending":
        """Begin a `reduce_scatter`."""
        begin = partial(_REDUCE_SCATTER, output, whole, group=self.group, async_op=True)
        return self.start(begin, whole)

    def start(
        self,
        begin: Callable[[], dist.Work | None],
        tensor: torch.Tensor,
        *,
        tells_end: bool = False,
        peer: int | None = None,
    ) -> "Pending":
        """Begin an operation that goes on while this rank computes; `wait` ends it.

        Args:
            begin: Starts it.
            tensor: What it carries.
            tells_end: Whether the operation has a future that is done when it is
                (docs/method/collecting.md).
            peer: Of a transfer, the other's rank in the group.
        """
        arrivals = self._arrive(tensor, peer)
        sequence, arrival = self._writer.enqueue(self._group_index)
        try:
            work = begin()
        except RuntimeError as error:
            raise self._lost(error) from error
        assert work is not None
        ended: list[int] = []
        if tells_end:
            rest_at_exit()
            work.get_future().then(partial(_note_end, ended))
        return Pending(self, work, sequence, arrival, tensor, ended, arrivals)

    def _timed(self, tensor: torch.Tensor, call: Callable[..., Any], *arguments: Any) -> None:
        writer = self._writer
        arrivals = self._arrive(tensor)
        arrival = writer.begin(self._op, self._group_index)
        try:
            call(*arguments)
        except RuntimeError as error:
            raise self._lost(error) from error
        took = writer.end(self._op, self._group_index, arrival, tensor.nbytes, self._tag)
        self._recorder.waited(took)
        self._complete(arrivals, arrival, arrival + took)

    def _wait(self, pending: "Pending") -> None:
        since = self._writer.await_(self._op, self._group_index, pending.sequence)
        try:
            assert pending.work is not None
            pending.work.wait()
        except RuntimeError as error:
            raise self._lost(error) from error
        flags, ended = _end_of(pending)
        took = self._writer.complete(
            self._op, self._group_index, pending.sequence, pending.arrival, since,
            pending.tensor.nbytes, self._tag, flags, ended,
        )  # fmt: skip
        self._recorder.waited(took)
        until = since + took if ended is None else min(since + took, ended)
        self._complete(pending.arrivals, pending.arrival, until)

    def _arrive(self, tensor: torch.Tensor, peer: int | None = None) -> list[Any]:
        """What each timer of others' formats makes of it."""
        return [timer.arrive(self.op, self.group, tensor.nbytes, peer) for timer in self._timers]

    def _complete(self, arrivals: list[Any], begin_ns: int, end_ns: int) -> None:
        for each, arrived in zip(self._timers, arrivals, strict=True):
            each.complete(arrived, begin_ns, end_ns)

    def _lost(self, error: RuntimeError) -> PeerLostError:
        return PeerLostError(f"{self._name}: {error}")


@dataclass(slots=True)
class Pending:
    """An operation under way.

    Attributes:
        ended: When it ended, once somebody told; else the return of `wait` is an upper bound.
        arrivals: What each timer made of its arrival.
    """

    collective: Collective
    work: dist.Work | None
    sequence: int
    arrival: int
    tensor: torch.Tensor
    ended: list[int]
    arrivals: list[Any]

    def wait(self) -> None:
        """Return when the operation is complete on this rank.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        self.collective._wait(self)


def _note_end(ended: list[int], future: torch.futures.Future[Any]) -> None:
    """Runs in gloo's thread; the training thread writes the record."""
    future.value()  # raises what the operation raised: that is no end
    ended.append(monotonic_ns())


def _end_of(pending: Pending) -> tuple[int, int | None]:
    """Flags of the record, and when the operation ended if that is known."""
    if pending.ended:
        return FLAG_OVERLAPPED, pending.ended[0]
    return BESIDE, None


class Comm:
    """The process groups of one rank, and the places that communicate in them."""

    def __init__(
        self, recorder: StepRecorder, groups: Mapping[str, dist.ProcessGroup],
        timers: tuple[Timer, ...] = (),
    ) -> None:  # fmt: skip
        self._recorder = recorder
        self._groups = groups
        self._timers = timers

    def size(self, group: str) -> int:
        """Number of ranks in a group."""
        return self._groups[group].size()

    def rank(self, group: str) -> int:
        """This rank's place in a group."""
        return self._groups[group].rank()

    def collective(
        self, op: str, name: str, tag: str, group: dist.ProcessGroup | None = None
    ) -> Collective:
        """A place that communicates.

        Args:
            op: A name of words.OPS.
            name: A name of words.GROUPS.
            tag: What it is for, as `grads.0`; shown in traces.
            group: Some of the ranks of the named group, where not all take part.
        """
        return Collective(self._recorder, group or self._groups[name], op, name, tag, self._timers)
