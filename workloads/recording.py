"""What happened in each step of a rank: phases, own time, waiting; written to the ring."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic_ns, thread_time_ns
from types import TracebackType
from typing import Self, SupportsFloat

from lockstep.collector.contract.ring import NO_TAG
from lockstep.collector.contract.words import PHASES, STEP_TAGS, Phase
from lockstep.workloads.ring import OP_INDEX, RingWriter

# Steps at the start of a run that are not evidence of its speed.

WARMUP_STEPS = 5
"""Unpaced steps in which this machine's CPU time is measured; tagged `warmup`."""
BASELINE_STEPS_AT_LEAST = 5
"""Healthy steps after the warm-up from which a fault is sized."""
FIRST_FAULTY_STEP = WARMUP_STEPS + BASELINE_STEPS_AT_LEAST


PHASE_OPS: dict[Phase, str] = {
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
    completion). Where one of them was not timed, nobody knows it. A phase within another is a
    part of that; what no phase covers is `other`.
    """

    def __init__(self, writer: RingWriter) -> None:
        self.writer = writer
        self.wall_seconds = 0.0
        self.own_seconds = 0.0
        self._depth = 0
        self.last_phases: list[int] = [0] * len(PHASES)
        """Nanoseconds of the last step, in the order of PHASES."""
        self._spans = {phase: _Span(self, phase) for phase in PHASES}
        self._phase_ns = [0] * len(PHASES)
        self._waited_ns = 0
        self._all_timed = True
        self.marking = 0
        """Blocks in which the program itself times what happens now, as a collective."""
        self.marked = 0
        """Collectives that the program itself has timed in the step."""
        self.last_tags = 0
        """Step tags of the last step, as bits."""
        self._tags = 0
        self._start = 0
        self._cpu_start = 0

    def start_step(self) -> None:
        """Begin the next step."""
        self._phase_ns = [0] * len(PHASES)
        self._waited_ns = 0
        self._all_timed = True
        self.marked = 0
        self._tags = 0
        self._depth = 0
        self._cpu_start = thread_time_ns()
        self._start = monotonic_ns()

    @property
    def in_phase(self) -> bool:
        """Whether a phase of the step in progress is open."""
        return self._depth > 0

    @property
    def waited_seconds(self) -> float:
        """Time in blocking collectives since the step began."""
        return self._waited_ns / 1e9

    def phase(self, phase: Phase, tag: int = NO_TAG) -> AbstractContextManager[object]:
        """A `with` block of the step in progress; `tag` (ring.tag) is of its operation."""
        span = self._spans[phase]
        if not self._depth:
            span.tag = tag
        return span

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

    def untimed(self) -> None:
        """Say that a collective of the step was not timed: its own time is not known."""
        self._all_timed = False

    def end_step(self, *, samples: int, tokens: int, flops: float, loss: SupportsFloat) -> None:
        """Close the step and write its record; `wall_seconds` and `own_seconds` are its times.

        `own_seconds` is NaN where it is not known.
        """
        cpu = max(0, thread_time_ns() - self._cpu_start)  # another thread may have begun the step
        self._write(
            self._start, monotonic_ns(), cpu, self._tags, loss,
            samples=samples, tokens=tokens, flops=flops,
        )  # fmt: skip

    def after(self, call: Callable[[], None]) -> None:
        """Call it when the device has finished the step that was last ended: on CPU, now."""
        call()

    def flush(self) -> None:
        """Return when the device has finished everything, and it is written."""

    def _write(
        self, start: int, end: int, cpu: int, tags: int, loss: SupportsFloat,
        *, samples: int, tokens: int, flops: float,
    ) -> None:  # fmt: skip
        wall = end - start
        wait = self._waited_ns if self._all_timed else None
        own = None if wait is None else wall - wait
        phases = self._phase_ns
        phases[_OTHER] = max(0, wall - sum(phases))
        self.wall_seconds = wall / 1e9
        self.own_seconds = math.nan if own is None else own / 1e9
        self.last_phases = phases
        self.last_tags = tags
        self.writer.end_step(
            start_ns=start, wall_ns=wall, cpu_ns=cpu, own_ns=own, wait_ns=wait, phase_ns=phases,
            tags=tags, samples=samples, tokens=tokens, flops=flops, loss=float(loss),
        )  # fmt: skip

    def _close_span(self, phase: int, op: int | None, start: int, tag: int) -> None:
        end = monotonic_ns()
        self._phase_ns[phase] += end - start
        if op is not None:
            self.writer.local(op, start, end, tag)


class _Span:
    """One phase as a reusable context manager."""

    __slots__ = ("_index", "_op", "_recorder", "_start", "tag")

    def __init__(self, recorder: StepRecorder, phase: Phase) -> None:
        self._recorder = recorder
        self._index = PHASES.index(phase)
        self._op = OP_INDEX[PHASE_OPS[phase]] if phase in PHASE_OPS else None
        self._start = 0
        self.tag = NO_TAG

    def __enter__(self) -> Self:
        self._recorder._depth += 1
        if self._recorder._depth == 1:
            self._start = self._recorder.writer.phase(self._index)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        recorder = self._recorder
        if not recorder._depth:  # opened before the step in progress began
            return
        recorder._depth -= 1
        if not recorder._depth:
            recorder._close_span(self._index, self._op, self._start, self.tag)
