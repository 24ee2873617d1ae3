"""Steps and collectives of a rank that trains on CUDA, timed on the device's own time line.

The same words as recording.py and comm.py; the times are those at which the stream came to a
place, not those at which the host asked for it.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic_ns, sleep, thread_time_ns
from typing import Any, Protocol, SupportsFloat

import torch
import torch.distributed as dist

from lockstep.collector.contract.ring import NO_TAG
from lockstep.collector.contract.words import PHASES, Phase
from lockstep.workloads.parallel.comm import BESIDE, Collective, Comm, Pending
from lockstep.workloads.recording import PHASE_OPS, StepRecorder
from lockstep.workloads.ring import OP_INDEX, RingWriter

# The timeline of a CUDA stream: begin and end of operations, without waiting for the device.
#
# Events are recorded on the stream around each operation. A helper thread asks whether they have
# passed, and hands what has to the training thread, which alone writes the ring, between steps.
# Tests use fake events; on a GPU: `python -m tests.benchmarks shared_gpu`.

POLL_SECONDS = 0.002
ANCHOR_NS = 10_000_000_000
"""An anchor is this old at most: CUDA tells times between events as a float of milliseconds, which
after ten seconds is good to a microsecond."""
ANCHOR_READINGS = 5

Write = Callable[..., None]
"""Writes something, given the times of its marks in monotonic nanoseconds."""


class Event(Protocol):
    """torch.cuda.Event, as far as we use it."""

    def record(self) -> None:
        """Put the event into the current stream."""
        ...

    def query(self) -> bool:
        """Whether the stream has passed it."""
        ...

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from this event to a later one."""
        ...


@dataclass(frozen=True, slots=True)
class Anchor:
    """An event whose time is known on the monotonic clock."""

    event: Event
    at_ns: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a stream."""

    event: Event
    anchor: Anchor

    def ns(self) -> int:
        """When the stream passed it."""
        return self.anchor.at_ns + round(1e6 * self.anchor.event.elapsed_time(self.event))


class Timeline:
    """Marks in a stream, and what is written once it has passed them, in the order of `then`.

    `mark`, `then` and `drain` are the training thread's, `poll` is the helper's.
    """

    def __init__(
        self, event: Callable[[], Event], anchor: Callable[[], Anchor],
        now: Callable[[], int] = monotonic_ns,
    ) -> None:  # fmt: skip
        self._event, self._new_anchor, self._now = event, anchor, now
        self._anchor = anchor()
        self._coming: deque[tuple[Write, tuple[Mark, ...]]] = deque()
        self._passed: deque[tuple[Write, tuple[int, ...]]] = deque()
        self._error: Exception | None = None

    def mark(self) -> Mark:
        """Mark the place that the current stream has been given work up to."""
        event = self._event()
        event.record()
        return Mark(event, self._anchor)

    def then(self, write: Write, *marks: Mark) -> None:
        """Call `write` with the times of the marks, once all are passed and all before it done."""
        self._coming.append((write, marks))

    def drain(self) -> bool:
        """Write what has passed; returns whether that was all.

        Raises:
            RuntimeError: The device failed, as the helper thread learned.
        """
        while self._passed:
            write, times = self._passed.popleft()
            write(*times)
        if self._error is not None:
            raise RuntimeError(f"the device failed: {self._error}") from self._error
        return not self._coming and not self._passed

    def poll(self) -> None:
        """Look which marks have passed."""
        try:
            if self._now() - self._anchor.at_ns > ANCHOR_NS:
                self._anchor = self._new_anchor()
            while self._coming:
                write, marks = self._coming[0]
                if not all(mark.event.query() for mark in marks):
                    return
                self._passed.append((write, tuple(mark.ns() for mark in marks)))
                self._coming.popleft()
        except Exception as error:  # noqa: BLE001 - `drain` raises it in the training thread
            self._error = error


def cuda_timeline(device: torch.device) -> Timeline:
    """A timeline of the current stream of a device, polled for as long as the process runs."""
    aside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def new_event() -> torch.cuda.Event:
        return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

    def anchor() -> Anchor:
        """Waits for a stream that nobody else uses, never for training."""
        readings = []
        for _ in range(ANCHOR_READINGS):
            event = new_event()
            before = monotonic_ns()
            event.record(aside)
            event.synchronize()
            after = monotonic_ns()
            readings.append((after - before, Anchor(event, (before + after) // 2)))
        return min(readings, key=lambda reading: reading[0])[1]

    timeline = Timeline(new_event, anchor)

    def poll() -> None:
        torch.cuda.set_device(device)
        pause = threading.Event()
        while not pause.wait(POLL_SECONDS):
            timeline.poll()

    threading.Thread(target=poll, name="cuda-events", daemon=True).start()
    return timeline


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
