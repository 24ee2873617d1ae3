"""What happened in each step of a rank: phases, own time, waiting; written to the ring."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns, thread_time_ns
from types import TracebackType
from typing import Self

from collector.contract.words import PHASES, STEP_TAGS, Phase
from workloads.ring import OP_INDEX, RingWriter

_PHASE_OPS: dict[Phase, str] = {
    Phase.DATA: "data-load",
    Phase.FORWARD: "forward-compute",
    Phase.BACKWARD: "backward-compute",
    Phase.OPTIMIZER: "optimizer",
}
"""Phases that are one local operation each; the others consist of collectives or nothing."""

_OTHER = PHASES.index(Phase.OTHER)


class StepRecorder:
    """Divides each step into phases and knows how much of it was the rank's own.

    Own time = wall time of the step minus the time in blocking collectives (arrival to
    completion). Phases do not nest; what no phase covers is `other`.
    """

    def __init__(self, writer: RingWriter) -> None:
        self.writer = writer
        self.wall_seconds = 0.0
        self.own_seconds = 0.0
        self._spans = {phase: _Span(self, phase) for phase in PHASES}
        self._phase_ns = [0] * len(PHASES)
        self._waited_ns = 0
        self._tags = 0
        self._start = 0
        self._cpu_start = 0

    def start_step(self) -> None:
        """Begin the next step."""
        self._phase_ns = [0] * len(PHASES)
        self._waited_ns = 0
        self._tags = 0
        self._cpu_start = thread_time_ns()
        self._start = monotonic_ns()

    def phase(self, phase: Phase) -> "_Span":
        """A `with` block of the step in progress."""
        return self._spans[phase]

    @contextmanager
    def local(self, op: str) -> Iterator[None]:
        """A `with` block of local work outside the phases that are operations themselves."""
        start = monotonic_ns()
        yield
        self.writer.local(OP_INDEX[op], start, monotonic_ns())

    def tag_step(self, tag: str) -> None:
        """Mark the step as slow by design (words.STEP_TAGS)."""
        self._tags |= 1 << STEP_TAGS.index(tag)

    def waited(self, nanoseconds: int) -> None:
        """Add a blocking collective's duration, arrival to completion."""
        self._waited_ns += nanoseconds

    def end_step(self, *, samples: int, tokens: int, flops: float, loss: float) -> None:
        """Close the step and write its record; `wall_seconds` and `own_seconds` are its times."""
        wall = monotonic_ns() - self._start
        own = wall - self._waited_ns
        phases = self._phase_ns
        phases[_OTHER] = max(0, wall - sum(phases))
        self.wall_seconds = wall / 1e9
        self.own_seconds = own / 1e9
        self.writer.end_step(
            start_ns=self._start,
            wall_ns=wall,
            cpu_ns=thread_time_ns() - self._cpu_start,
            own_ns=own,
            phase_ns=phases,
            tags=self._tags,
            samples=samples,
            tokens=tokens,
            flops=flops,
            loss=loss,
        )

    def _close_span(self, phase: int, op: int | None, start: int) -> None:
        end = monotonic_ns()
        self._phase_ns[phase] += end - start
        if op is not None:
            self.writer.local(op, start, end)


class _Span:
    """One phase as a reusable context manager."""

    __slots__ = ("_index", "_op", "_recorder", "_start")

    def __init__(self, recorder: StepRecorder, phase: Phase) -> None:
        self._recorder = recorder
        self._index = PHASES.index(phase)
        self._op = OP_INDEX[_PHASE_OPS[phase]] if phase in _PHASE_OPS else None
        self._start = 0

    def __enter__(self) -> Self:
        self._start = self._recorder.writer.phase(self._index)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._recorder._close_span(self._index, self._op, self._start)
