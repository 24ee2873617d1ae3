"""The recorder of a program that runs under Lockstep: it writes the rank's ring."""

import atexit
import math
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Self, SupportsFloat

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import PHASES, STEP_TAGS, Phase, RankState
from lockstep.workloads.measure.heartbeat import Heartbeat, stacks_on_signal
from lockstep.workloads.measure.round_trip import RoundTrips
from lockstep.workloads.measure.starting import first_step_ended
from lockstep.workloads.recording import WARMUP_STEPS, StepRecorder
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.sdk.amounts import count, real
from lockstep.workloads.sdk.coverage import Coverage, Data, Waits, torch_data, torch_waits
from lockstep.workloads.sdk.dumps import Dumps
from lockstep.workloads.sdk.guard import Block, Guard, guarded
from lockstep.workloads.sdk.interface import ItemT, Recorder
from lockstep.workloads.sdk.items import steps
from lockstep.workloads.sdk.waiting import Waiting, slot_of
from lockstep.workloads.sdk.warning import shown, warn, warn_about, warn_of

_NOTHING = nullcontext()
OWN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,30}")
"""Of a value that the program logs: it fits into the ring, and into a label."""
MOST_UNHEARD = 20
"""Names that are told to be too many; a program that makes a new one each step says no more."""
MOST_TOKENS = 1 << 48
"""Of a step; more is no count of anything, and a few of them would be more than a counter holds."""
MOST_FLOPS = 1e30
"""Of a step; all that were ever trained with together are fewer."""


@guarded
class RingRecorder(Recorder):
    """Writes every step into the ring of this rank; see Recorder.

    One thread, the training thread, calls it. A forked child of the program records nothing, nor
    does a copy that was pickled; a copy of it in this process is itself.

    Args:
        yields: The program itself or another process may take the ring, which is no fault.

    Attributes:
        recorder: What divides the step into phases.
    """

    active = True

    def __init__(
        self, writer: RingWriter, dumps: Dumps | None = None,
        waits: Callable[[], Waits] = torch_waits, data: Callable[[], Data] = torch_data,
        *, yields: bool = False,
    ) -> None:  # fmt: skip
        self.recorder = StepRecorder(writer)
        self._coverage = Coverage(self.recorder, writer.identity.world, waits, data)
        self._writer = writer
        self._yields = yields
        self._step = Block(self, _Step(self))
        self._phases: dict[str, Block] = {
            phase: Block(self, self.recorder.phase(phase)) for phase in PHASES
        }
        self._loading = self.recorder.phase(Phase.DATA)
        self._ended = 0
        self._done = False
        self._facts: dict[str, Any] = {}
        self._values: dict[str, SupportsFloat] = {}
        self._unheard: set[str] = set()
        dumps = dumps or Dumps(writer.path.parent, writer.identity)
        who = writer.identity
        on_signal = stacks_on_signal(writer.path.parent, who.run, who.rank)
        trips = RoundTrips(writer.round_trip)
        beats = writer.heartbeat, self._look_at_place, trips, dumps
        self._beats = Heartbeat(*beats, *filter(None, [on_signal]))
        self._beats.start()
        guard = Guard()
        atexit.register(guard.alone(self.close))
        os.register_at_fork(after_in_child=guard.alone(self._forget))
        self.begin()

    def steps(self, items: Iterable[ItemT]) -> Iterable[ItemT]:
        """See Recorder."""
        given: Iterable[ItemT] = steps(self, items)
        return given

    def item_wanted(self, *, after_another: bool) -> None:
        """See items.Loop."""
        if after_another:
            self.end()
        self.begin()
        self._loading.__enter__()

    def item_given(self) -> None:
        """See items.Loop."""
        self._loading.__exit__(None, None, None)
        self._done = False

    def items_ended(self) -> None:
        """See items.Loop."""
        self._loading.__exit__(None, None, None)

    def loop_left(self) -> None:
        """`break` at the end of the last step, or at the start of one that never was."""
        if self._done:
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
        block = self._phases.get(name) if isinstance(name, str) else None
        if block is None:
            warn_about("phase", lambda: f"there is no phase {shown(name)}; its time counts as"
                       f" other: {', '.join(PHASES)}")  # fmt: skip
            return _NOTHING
        if name in STEP_TAGS:
            self.recorder.tag_step(name)
        self._done = True
        return block

    def collective(
        self,
        group: str = "dp",
        *,
        kind: str = "all-reduce",
        bytes: int = 0,  # noqa: A002 - see Recorder
    ) -> AbstractContextManager[object]:
        """See Recorder."""
        self._done = True
        return Block(self, Waiting(self.recorder, slot_of(group, kind), bytes))

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
            samples=count(facts.get("samples", 0), "samples", ring.MOST_SAMPLES),
            tokens=count(facts.get("tokens", 0), "tokens", MOST_TOKENS),
            flops=_work(facts.get("flops", 0.0)),
            loss=real(facts.get("loss", math.nan), "loss", math.nan),
        )
        if self._ended == 1:
            first_step_ended()

    def close(self) -> None:
        """Say that the rank has ended, and stop the helper thread; the ring stays."""
        failed = getattr(sys, "last_value", None) is not None
        self._end_as(RankState.FAILED if failed else RankState.FINISHED)

    def give_up(self, error: Exception) -> None:
        """See guard.Guarded."""
        if self.active:
            warn_of("this rank is not recorded from here on", error)
            Guard()(self._end_as, RankState.FINISHED)

    def _end_as(self, state: RankState) -> None:
        self.active = False
        self._facts, self._values = {}, {}
        guard = Guard()
        guard(self._coverage.leave)
        guard(self._writer.state, state)
        guard(self._beats.stop)

    def _say(self) -> None:
        """What was logged in the step that ends; what cannot be said is told once a name."""
        for name, value in self._values.items():
            number = real(value, f"log({name[:40]}=…)", math.nan)
            right = OWN_NAME.fullmatch(name) and self._writer.value(name, number)
            if not right and name not in self._unheard and len(self._unheard) < MOST_UNHEARD:
                self._unheard.add(name)
                warn(f"log({name[:40]}=…) is not shown: a rank has at most {ring.MAX_VALUES} names,"
                     " each of at most 31 letters, digits and _")  # fmt: skip
        self._values = {}

    def _look_at_place(self) -> None:
        """A beat: say so once nobody finds the ring any more, because its folder was emptied."""
        inode = self._writer.inode_in_place()
        if inode is None or (inode != self._writer.inode and not self._yields):
            warn(f"this rank is not recorded any more: {self._writer.path} was deleted or replaced")

    def _forget(self) -> None:
        """In a forked child: the ring is the parent's."""
        self.active = False

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Recorder], tuple[()]]:
        return Recorder, ()


class _Step:
    """One step as a reusable context manager; a step that raised is none."""

    def __init__(self, recorder: RingRecorder) -> None:
        self._recorder = recorder

    def __enter__(self) -> None:
        self._recorder.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._recorder.end()


def _work(value: Any) -> float:
    """Model FLOPs of a step; 0 where they are no amount of anything."""
    flops = real(value, "flops", 0.0)
    if 0.0 <= flops <= MOST_FLOPS:
        return flops
    warn_about(
        "flops",
        lambda: f"flops={shown(value)} is no number from 0 to {MOST_FLOPS:g}; 0 is recorded",
    )
    return 0.0
