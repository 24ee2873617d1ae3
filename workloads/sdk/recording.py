"""The recorder of a program that runs under Lockstep: it writes the rank's ring."""

import atexit
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from time import monotonic_ns
from types import TracebackType
from typing import Any, Self, SupportsFloat

from collector.contract import ring
from collector.contract.words import PHASES, STEP_TAGS, Phase, RankState
from workloads.heartbeat import Heartbeat
from workloads.recording import StepRecorder
from workloads.ring import RingWriter
from workloads.round_trip import RoundTrips
from workloads.sdk.coverage import Coverage, Data, Waits, torch_data, torch_waits
from workloads.sdk.dumps import Dumps
from workloads.sdk.interface import ItemT, Recorder
from workloads.sdk.waiting import Waiting, place_of
from workloads.sdk.warning import warn
from workloads.stack_signal import stacks_on_signal
from workloads.starting import first_step_ended
from workloads.warmup import WARMUP_STEPS

_NOTHING = nullcontext()
OWN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,30}")
"""Of a value that the program logs: it fits into the ring, and into a label."""
MOST_UNHEARD = 20
"""Names that are told to be too many; a program that makes a new one each step says no more."""


class RingRecorder(Recorder):
    """Writes every step into the ring of this rank; see Recorder.

    One thread, the training thread, calls it. A forked child of the program records nothing.

    Attributes:
        recorder: What divides the step into phases.
    """

    active = True

    def __init__(
        self, writer: RingWriter, dumps: Dumps | None = None,
        waits: Callable[[], Waits] = torch_waits, data: Callable[[], Data] = torch_data,
    ) -> None:  # fmt: skip
        self.recorder = StepRecorder(writer)
        self._coverage = Coverage(self.recorder, writer.identity.world, waits, data)
        self._writer = writer
        self._step = _Step(self)
        self._ended = 0
        self._done = False
        self._facts: dict[str, Any] = {}
        self._values: dict[str, SupportsFloat] = {}
        self._unheard: set[str] = set()
        self.begin()
        dumps = dumps or Dumps(writer.path.parent, writer.identity)
        who = writer.identity
        on_signal = stacks_on_signal(writer.path.parent, who.run, who.rank)
        trips = RoundTrips(writer.round_trip)
        self._beats = Heartbeat(writer.heartbeat, trips, dumps, *filter(None, [on_signal]))
        self._beats.start()
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._forget)

    def steps(self, items: Iterable[ItemT]) -> Iterator[ItemT]:
        """See Recorder."""
        waiting = iter(items)
        ended = object()
        while True:
            self.begin()
            with self.recorder.phase(Phase.DATA):
                item = next(waiting, ended)
            if item is ended:
                return
            self._done = False
            try:
                yield item  # type: ignore[misc]
            except GeneratorExit:
                # `break` at the end of the last step, or at the start of one that never was.
                if self._done:
                    self.end()
                raise
            self.end()

    def step(self) -> AbstractContextManager[object]:
        """See Recorder."""
        return self._step

    def step_ended(
        self, *, loss: SupportsFloat | None = None, samples: int = 0, tokens: int = 0
    ) -> None:
        """See Recorder."""
        self.tell(loss=loss, samples=samples, tokens=tokens)
        self.end()
        self.begin()

    def phase(self, name: str) -> AbstractContextManager[object]:
        """See Recorder."""
        if name not in PHASES:
            warn(f"there is no phase {name!r}; its time counts as other: {', '.join(PHASES)}")
            return _NOTHING
        if name in STEP_TAGS:
            self.recorder.tag_step(name)
        self._done = True
        return self.recorder.phase(Phase(name))

    def collective(
        self,
        group: str = "dp",
        *,
        kind: str = "all-reduce",
        bytes: int = 0,  # noqa: A002 - see Recorder
    ) -> AbstractContextManager[object]:
        """See Recorder."""
        self._done = True
        return Waiting(self.recorder, place_of(group, kind), bytes)

    def tell(
        self, *, loss: SupportsFloat | None = None, samples: int | None = None,
        tokens: int | None = None, flops: float | None = None,
    ) -> None:  # fmt: skip
        """See Recorder."""
        self._done = True
        facts = {"loss": loss, "samples": samples, "tokens": tokens, "flops": flops}
        self._facts |= {name: fact for name, fact in facts.items() if fact is not None}

    def log(self, **values: SupportsFloat) -> None:
        """See Recorder."""
        self._done = True
        self._values |= values

    def watch_torch(self) -> None:
        """See Recorder."""
        self._coverage.look()

    def settle(self) -> None:
        """Close what has ended by itself, as the averaging of gradients."""
        self._coverage.settle()

    def _say(self) -> None:
        """What was logged in the step that ends; what cannot be said is told once a name."""
        for name, value in self._values.items():
            number = _number(value, math.nan)
            right = OWN_NAME.fullmatch(name) and self._writer.value(name, number)
            if not right and name not in self._unheard and len(self._unheard) < MOST_UNHEARD:
                self._unheard.add(name)
                warn(f"log({name[:40]}=…) is not shown: a rank has at most {ring.MAX_VALUES} names,"
                     " each of at most 31 letters, digits and _")  # fmt: skip
        self._values = {}

    def begin(self) -> None:
        """Begin the next step."""
        self._facts = {}
        self._coverage.look()
        self.recorder.start_step()
        if self._ended < WARMUP_STEPS:
            self.recorder.tag_step("warmup")

    def end(self) -> None:
        """Close the step in progress."""
        self.settle()
        self._coverage.judge()
        self._ended += 1
        if self._values:
            self._say()
        facts = self._facts
        self.recorder.end_step(
            samples=_count(facts.get("samples", 0)),
            tokens=_count(facts.get("tokens", 0)),
            flops=_number(facts.get("flops", 0.0), 0.0),
            loss=_number(facts.get("loss", math.nan), math.nan),
        )
        if self._ended == 1:
            first_step_ended()

    def close(self) -> None:
        """Say that the rank has ended, and stop the helper thread; the ring stays."""
        if not self.active:
            return
        self.active = False
        self._coverage.leave()
        failed = getattr(sys, "last_value", None) is not None
        self._writer.state(RankState.FAILED if failed else RankState.FINISHED)
        self._beats.stop()

    def _forget(self) -> None:
        """In a forked child: the ring is the parent's."""
        self.active = False
        self.recorder = StepRecorder(_NoRing(self._writer))  # type: ignore[arg-type]


class _Step:
    """One step as a reusable context manager; a step that raised is none."""

    def __init__(self, recorder: RingRecorder) -> None:
        self._recorder = recorder

    def __enter__(self) -> Self:
        self._recorder.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._recorder.end()


class _NoRing:
    """Takes every call of a RingWriter and writes nothing."""

    def __init__(self, writer: RingWriter) -> None:
        self.path, self.identity = writer.path, writer.identity

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _answer_of.get(name, _nothing)


def _nothing(*arguments: object, **named: object) -> int:
    return monotonic_ns()


_answer_of: dict[str, Callable[..., Any]] = {
    "enqueue": lambda *arguments: (0, monotonic_ns()),
    "end": lambda *arguments: 0,
    "complete": lambda *arguments: 0,
    "tag": lambda *arguments: 0,
}


def _count(value: Any) -> int:
    """A whole number that the ring can hold; 0 with a warning where it is none."""
    number = _number(value, 0.0)
    if not 0.0 <= number < 1 << 63:
        warn(f"{value!r} is no number of samples or tokens; 0 is recorded")
        return 0
    return int(number)


def _number(value: Any, instead: float) -> float:
    try:
        # A tensor that needs a gradient warns when it is made a number.
        return float(value.detach() if hasattr(value, "detach") else value)
    except Exception:  # noqa: BLE001 - whatever a foreign type raises
        warn(f"a {type(value).__name__} is no number; {instead} is recorded")
        return instead
