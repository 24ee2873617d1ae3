"""DistributedDataParallel's gradient buckets: when each was ready, and when it was averaged."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic_ns
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.autograd import Variable

from lockstep.collector.contract.ring import FLAG_COMPLETION_IS_UPPER_BOUND, FLAG_OVERLAPPED
from lockstep.workloads.measure.gloo_threads import rest_at_exit
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.ring import GROUP_INDEX, OP_INDEX
from lockstep.workloads.sdk.guard import Guard
from lockstep.workloads.sdk.pytorch.counts import Counts

_OP, _GROUP = OP_INDEX["dp-all-reduce"], GROUP_INDEX["dp"]

Reduced = torch.futures.Future[torch.Tensor]
CommHook = Callable[[Any, GradBucket], Reduced]


@dataclass(slots=True)
class _Bucket:
    """One all-reduce under way; `ended` is filled by gloo's thread."""

    sequence: int
    arrival: int
    size: int
    tag: int
    ended: list[int] = field(default_factory=list)


class Buckets:
    """The buckets of the backward pass in progress, of all models in it.

    They overlap with it; the rank waits from the end of its computation to the end of the last
    all-reduce. The autograd engine tells the two: callbacks at its end run in the order in which
    they were queued, ours around the reducer's (torch/csrc/autograd/engine.cpp).
    """

    def __init__(self, counts: Counts, guard: Guard) -> None:
        self._counts, self._guard = counts, guard
        self._recorder: StepRecorder | None = None
        self._open: list[_Bucket] = []
        self._queued = False
        self._computed = 0
        self._delayed = False
        self._before = 0

    @property
    def reducing(self) -> bool:
        """Whether a backward pass with buckets is in progress."""
        return bool(self._open)

    def use(self, recorder: StepRecorder | None) -> None:
        """Where the times go from now on; None = nowhere."""
        self._recorder, self._open, self._queued = recorder, [], False

    def hook(self, hook: CommHook, *, delayed: Callable[[], bool]) -> CommHook:
        """The communication hook, with its buckets timed.

        Args:
            delayed: Whether the reducer may have kept all buckets for the end of the pass.
        """

        def before(state: Any, bucket: GradBucket) -> list[int] | None:
            rest_at_exit()
            return self._arrive(bucket, delayed=delayed())

        def after(ended: list[int], reduced: Reduced) -> Reduced:
            return reduced.then(_noting(ended))

        return self._guard.around(hook, before, after)

    def _arrive(self, bucket: GradBucket, *, delayed: bool) -> list[int] | None:
        """Record that a bucket is ready; the list takes the time at which it is averaged."""
        recorder = self._recorder
        if recorder is None:
            return None
        if bucket.index() == 0 and self._open and not self._queued:
            self.settle()  # of a backward pass before this one in the same step
        writer = recorder.writer
        sequence, arrival = writer.enqueue(_GROUP)
        if not self._open:
            self._begin(delayed=delayed)
        if bucket.is_last():
            writer.await_(_OP, _GROUP, sequence)  # shown as open while the rank waits
        tag = writer.tag(f"bucket.{bucket.index()}")
        arrived = _Bucket(sequence, arrival, bucket.buffer().nbytes, tag)
        self._open.append(arrived)
        return arrived.ended

    def _begin(self, *, delayed: bool) -> None:
        self._before = self._counts.unaccounted()
        self._computed, self._delayed = 0, delayed
        try:
            self._queue(self._compute_ended)
            self._queued = True
        except RuntimeError:  # not in a backward pass: a rank that has joined early
            self._queued = False

    def _compute_ended(self) -> None:
        self._computed = monotonic_ns()
        self._queue(self._reduced)

    def _queue(self, ours: Callable[[], None]) -> None:
        """Call it when the backward pass in progress ends.

        Raises:
            RuntimeError: There is none.
        """
        Variable._execution_engine.queue_callback(partial(self._guard, ours))

    def _reduced(self) -> None:
        """After the reducer's own end: what it started besides the buckets has ended, too."""
        if self._open:
            self._counts.account_since(self._before)
        self.settle()

    def settle(self) -> None:
        """Write the buckets of the backward pass that has ended."""
        recorder, self._queued = self._recorder, False
        if recorder is None or not self._open:
            return
        buckets, self._open = self._open, []
        last = buckets[-1]
        until = max((bucket.ended[0] for bucket in buckets if bucket.ended), default=last.arrival)
        since = max(last.arrival, self._computed)
        if self._delayed and since > until:  # they came after the computation
            since = last.arrival
        waited = max(0, until - since)
        for bucket in buckets:
            # What counts as waiting is told by its length: it ended some time ago.
            begun = monotonic_ns() - (waited if bucket is last else 0)
            flags = FLAG_OVERLAPPED | (0 if bucket.ended else FLAG_COMPLETION_IS_UPPER_BOUND)
            recorder.writer.complete(
                _OP, _GROUP, bucket.sequence, bucket.arrival, begun, bucket.size, bucket.tag,
                flags, bucket.ended[0] if bucket.ended else None,
            )  # fmt: skip
        if not recorder.marking:
            recorder.waited(waited)


def _noting(ended: list[int]) -> Callable[[Reduced], torch.Tensor]:
    """For gloo's thread; what it computes is the program's, so it is not behind the guard."""

    def note(future: Reduced) -> torch.Tensor:
        reduced = future.value()
        ended.append(monotonic_ns())
        return reduced

    return note


class Averaging:
    """A communication hook that averages as the reducer does: the program's work, done by us.

    Attributes:
        ranks: By how many ranks' gradients to divide; None = all of the group.
    """

    def __init__(self) -> None:
        self.ranks: int | None = None

    def __call__(self, state: dist.ProcessGroup, bucket: GradBucket) -> Reduced:
        """See CommHook."""
        gradients = bucket.buffer()
        # The reducer multiplies, too: dividing differs in the last bit.
        gradients.mul_(1.0 / (self.ranks or state.size()))
        work = dist.all_reduce(gradients, group=state, async_op=True)
        assert work is not None
        averaged: torch.futures.Future[list[torch.Tensor]] = work.get_future()
        return averaged.then(_first)


def _first(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
    return future.value()[0]
