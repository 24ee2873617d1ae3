"""Steps and collectives of a rank that trains on CUDA, timed on the device's own time line.

The same words as recording.py and comm.py; the times are those at which the stream came to a
place, not those at which the host asked for it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic_ns, sleep, thread_time_ns
from typing import Any, SupportsFloat

import torch
import torch.distributed as dist

from lockstep.collector.contract.ring import NO_TAG
from lockstep.collector.contract.words import PHASES, Phase
from lockstep.workloads.comm import BESIDE, Collective, Comm, Pending
from lockstep.workloads.cuda_events import Mark, Timeline
from lockstep.workloads.recording import PHASE_OPS, StepRecorder
from lockstep.workloads.ring import OP_INDEX, RingWriter

STEPS_AHEAD = 1
"""Steps that the host may have given to the device beyond those that it has finished."""
PAUSE_SECONDS = 0.0005


class ToldClock:
    """The clock of a ring whose writer is told the time."""

    def __init__(self) -> None:
        self.ns = monotonic_ns()

    def __call__(self) -> int:
        """Nanoseconds, as last told."""
        return self.ns


class StreamRecorder(StepRecorder):
    """See StepRecorder. What is recorded reaches the ring when the device has passed it."""

    def __init__(self, writer: RingWriter, timeline: Timeline, clock: ToldClock) -> None:
        super().__init__(writer)
        self.timeline = timeline
        self.clock = clock
        self._ahead = 0
        self._began: Mark | None = None

    def start_step(self) -> None:
        """Begin the next step, once the device is at most STEPS_AHEAD behind."""
        while not self.timeline.drain() and self._ahead > STEPS_AHEAD:
            sleep(PAUSE_SECONDS)
        self._tags = 0
        self._cpu_start = thread_time_ns()
        self._began = self.timeline.mark()
        self.timeline.then(self._forget)  # what was waited between two steps is of neither

    @contextmanager
    def phase(self, phase: Phase, tag: int = NO_TAG) -> Iterator[None]:
        """See StepRecorder."""
        index, op = PHASES.index(phase), PHASE_OPS.get(phase)
        first = self.timeline.mark()
        self.timeline.then(partial(self._enter, index), first)
        yield
        number = None if op is None else OP_INDEX[op]
        self.timeline.then(partial(self._leave, index, number, tag), first, self.timeline.mark())

    @contextmanager
    def local(self, op: str) -> Iterator[None]:
        """See StepRecorder."""
        first = self.timeline.mark()
        yield
        self.timeline.then(partial(self.writer.local, OP_INDEX[op]), first, self.timeline.mark())

    def end_step(self, *, samples: int, tokens: int, flops: float, loss: SupportsFloat) -> None:
        """See StepRecorder; `loss` is read when the device has finished the step."""
        assert self._began is not None
        self._ahead += 1
        counts = {"samples": samples, "tokens": tokens, "flops": flops}
        cpu = thread_time_ns() - self._cpu_start
        write = partial(self._write_step, counts, cpu, self._tags, loss)
        self.timeline.then(write, self._began, self.timeline.mark())

    def after(self, call: Callable[[], None]) -> None:
        """See StepRecorder."""
        self.timeline.then(call)

    def flush(self) -> None:
        """See StepRecorder."""
        while not self.timeline.drain():
            sleep(PAUSE_SECONDS)

    def _forget(self) -> None:
        self._phase_ns, self._waited_ns = [0] * len(PHASES), 0

    def _enter(self, phase: int, at: int) -> None:
        self.clock.ns = at
        self.writer.phase(phase)

    def _leave(self, phase: int, op: int | None, tag: int, start: int, end: int) -> None:
        self._phase_ns[phase] += end - start
        if op is not None:
            self.writer.local(op, start, end, tag)

    def _write_step(
        self, counts: dict[str, Any], cpu: int, tags: int, loss: SupportsFloat, start: int, end: int
    ) -> None:
        self._write(start, end, cpu, tags, loss, **counts)
        self._ahead -= 1


class StreamCollective(Collective):
    """See Collective. NCCL's calls return at once; only the stream waits for them."""

    __slots__ = ("_stream",)

    def __init__(
        self, recorder: StreamRecorder, group: dist.ProcessGroup, op: str, name: str, tag: str
    ) -> None:
        super().__init__(recorder, group, op, name, tag)
        self._stream = recorder

    def run(self, tensor: torch.Tensor, call: Callable[[], None]) -> None:
        """See Collective: transfers of the host, when the device has nothing left to do."""
        self._stream.flush()
        began = monotonic_ns()
        self._arrived(began)
        try:
            call()
        except RuntimeError as error:
            raise self._lost(error) from error
        self._completed(tensor.nbytes, began, monotonic_ns())

    def start(
        self,
        begin: Callable[[], dist.Work | None],
        tensor: torch.Tensor,
        *,
        tells_end: bool = False,
        peer: int | None = None,
    ) -> Pending:
        """See Collective; the end is an upper bound, where the stream goes on."""
        timeline = self._stream.timeline
        first = timeline.mark()
        pending = StreamPending(self, None, 0, 0, tensor, [], [], first)
        timeline.then(partial(self._enqueued, pending), first)
        try:
            pending.work = begin()
        except RuntimeError as error:
            raise self._lost(error) from error
        return pending

    def _timed(self, tensor: torch.Tensor, call: Callable[..., Any], *arguments: Any) -> None:
        timeline = self._stream.timeline
        first = timeline.mark()
        timeline.then(self._arrived, first)
        try:
            call(*arguments)
        except RuntimeError as error:
            raise self._lost(error) from error
        timeline.then(partial(self._completed, tensor.nbytes), first, timeline.mark())

    def _wait(self, pending: Pending) -> None:
        assert isinstance(pending, StreamPending)
        timeline = self._stream.timeline
        since = timeline.mark()
        timeline.then(partial(self._waiting, pending), since)
        try:
            if pending.work is not None:
                pending.work.wait()
        except RuntimeError as error:
            raise self._lost(error) from error
        marks = pending.first, since, timeline.mark()
        timeline.then(partial(self._waited, pending), *marks)

    def _arrived(self, at: int) -> None:
        self._stream.clock.ns = at
        self._writer.begin(self._op, self._group_index)

    def _completed(self, size: int, arrival: int, at: int) -> None:
        self._stream.clock.ns = at
        took = self._writer.end(self._op, self._group_index, arrival, size, self._tag)
        self._recorder.waited(took)

    def _enqueued(self, pending: Pending, at: int) -> None:
        self._stream.clock.ns = at
        pending.sequence, pending.arrival = self._writer.enqueue(self._group_index)

    def _waiting(self, pending: Pending, at: int) -> None:
        self._stream.clock.ns = at
        self._writer.await_(self._op, self._group_index, pending.sequence)

    def _waited(self, pending: Pending, arrival: int, since: int, at: int) -> None:
        self._stream.clock.ns = at
        took = self._writer.complete(
            self._op, self._group_index, pending.sequence, arrival, since,
            pending.tensor.nbytes, self._tag, BESIDE,
        )  # fmt: skip
        self._recorder.waited(took)


@dataclass(slots=True)
class StreamPending(Pending):
    """See Pending; sequence and arrival are known once the stream came there."""

    first: Mark


class StreamComm(Comm):
    """See Comm."""

    def __init__(self, recorder: StreamRecorder, groups: Mapping[str, dist.ProcessGroup]) -> None:
        super().__init__(recorder, groups)
        self._stream = recorder

    def collective(
        self, op: str, name: str, tag: str, group: dist.ProcessGroup | None = None
    ) -> Collective:
        """See Comm."""
        return StreamCollective(self._stream, group or self._groups[name], op, name, tag)
