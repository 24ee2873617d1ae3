"""DistributedDataParallel's gradient buckets: when each was ready, and when it was averaged."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from collector.contract.ring import FLAG_COMPLETION_IS_UPPER_BOUND, FLAG_OVERLAPPED
from workloads.recording import StepRecorder
from workloads.ring import GROUP_INDEX, OP_INDEX

_OP, _GROUP = OP_INDEX["dp-all-reduce"], GROUP_INDEX["dp"]


@dataclass(slots=True)
class _Bucket:
    """One all-reduce under way; `ended` is filled by gloo's thread."""

    sequence: int
    arrival: int
    size: int
    tag: int
    ended: list[int] = field(default_factory=list)


class Buckets:
    """A communication hook that averages as the reducer does, and remembers the times.

    The buckets of one backward pass overlap with it, except that after the last one nothing is
    left to compute: from there to the end of the last all-reduce the rank waits.
    """

    def __init__(self) -> None:
        self._recorder: StepRecorder | None = None
        self._open: list[_Bucket] = []

    def use(self, recorder: StepRecorder | None) -> None:
        """Where the times go from now on; None = nowhere."""
        self._recorder, self._open = recorder, []

    def hook(
        self, state: dist.ProcessGroup, bucket: GradBucket
    ) -> torch.futures.Future[torch.Tensor]:
        """Average one bucket over the group `state`; torch asks for these very names."""
        gradients = bucket.buffer()
        # The reducer multiplies, too: dividing differs in the last bit.
        gradients.mul_(1.0 / state.size())
        ended = self._arrive(bucket.index(), gradients.nbytes, last=bucket.is_last())
        work = dist.all_reduce(gradients, group=state, async_op=True)
        assert work is not None
        averaged: torch.futures.Future[torch.Tensor] = work.get_future().then(_noting(ended))
        return averaged

    def _arrive(self, index: int, size: int, *, last: bool) -> list[int]:
        """Record that a bucket is ready; the list takes the time at which it is averaged."""
        if self._recorder is None:
            return []
        if index == 0 and self._open:
            self.settle()  # of a backward pass before this one in the same step
        writer = self._recorder.writer
        sequence, arrival = writer.enqueue(_GROUP)
        if last:
            writer.await_(_OP, _GROUP, sequence)  # shown as open while the rank waits
        bucket = _Bucket(sequence, arrival, size, writer.tag(f"bucket.{index}"))
        self._open.append(bucket)
        return bucket.ended

    def settle(self) -> None:
        """Write the buckets of the backward pass that has ended."""
        recorder = self._recorder
        if recorder is None or not self._open:
            return
        buckets, self._open = self._open, []
        last = buckets[-1]
        ends = [bucket.ended[0] for bucket in buckets if bucket.ended]
        waited = max(0, max(ends, default=last.arrival) - last.arrival)
        for bucket in buckets:
            # What counts as waiting is told by its length: it ended some time ago.
            since = monotonic_ns() - (waited if bucket is last else 0)
            flags = FLAG_OVERLAPPED | (0 if bucket.ended else FLAG_COMPLETION_IS_UPPER_BOUND)
            recorder.writer.complete(
                _OP, _GROUP, bucket.sequence, bucket.arrival, since, bucket.size, bucket.tag,
                flags, bucket.ended[0] if bucket.ended else None,
            )  # fmt: skip
        recorder.waited(waited)


def _noting(ended: list[int]) -> Callable[[torch.futures.Future[Any]], torch.Tensor]:
    def note(future: torch.futures.Future[Any]) -> torch.Tensor:
        averaged: torch.Tensor = future.value()[0]
        ended.append(monotonic_ns())
        return averaged

    return note
