"""Times what torch's DataLoader makes the training thread wait for: phase `data`, from outside.

What counts is making the iterator (which starts or resets workers) and each of its `__next__`:
with workers the wait for the next batch, without them the loading itself. Every loader counts,
one of an evaluation as well, because the step waits for it either way. What does not count is time
inside a phase that the program opened itself: phases do not nest. So `recorder.steps(loader)` is
timed once, an evaluation marked as such stays one, and a data set that reads another loader is
part of the outer one's time. A thread that fetches ahead makes nobody wait.
"""

import os
import sys
import threading
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from torch.utils.data import DataLoader, dataloader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from lockstep.collector.contract.words import Phase
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.sdk.guard import Guard
from lockstep.workloads.sdk.pytorch.tracing import untraced

_THIS = sys.modules[__name__]
"""Later it may not be found there: `run --exec` leaves none of our modules to the program."""
_PLACE = "_lockstep_data"
_VERSION = 1


def of_process() -> "TorchData":
    """The one of this process, installed now if it was not; see torch_waits.of_process."""
    there: TorchData | None = getattr(dataloader, _PLACE, None)
    if there is not None and getattr(there, "version", None) == _VERSION:
        return there
    data = TorchData()
    data.install()
    setattr(dataloader, _PLACE, data)
    return data


class TorchData:
    """The time of one thread in torch's DataLoader, as its StepRecorder's phase `data`."""

    version = _VERSION
    """Of what `use`, `follow` and `leave` do."""

    def __init__(self) -> None:
        self._recorder: StepRecorder | None = None
        self._thread = threading.get_ident()
        self._guard = Guard()

    def install(self) -> None:
        """Take the places, once."""
        for owner, name in ((DataLoader, "__iter__"), (_BaseDataLoaderIter, "__next__")):
            original = getattr(owner, name)
            setattr(owner, name, self._guard.around(original, self._begun, _answered, _ended))
        untraced(_THIS, TorchData)
        # A worker's loading is not the rank's waiting.
        os.register_at_fork(after_in_child=partial(self._guard, self.use, None))

    def use(self, recorder: StepRecorder | None) -> None:
        """Where this thread's time goes from now on; None = nowhere."""
        self._recorder, self._thread = recorder, threading.get_ident()

    def follow(self, recorder: StepRecorder) -> None:
        """This thread is the one that trains, if its time still goes to the recorder."""
        if self._recorder is recorder:
            self._thread = threading.get_ident()

    def leave(self, recorder: StepRecorder) -> None:
        """Time goes nowhere, unless it goes to another recorder by now."""
        if self._recorder is recorder:
            self.use(None)

    def _begun(self, _: Any) -> AbstractContextManager[object] | None:
        recorder = self._recorder
        if recorder is None or recorder.in_phase or threading.get_ident() != self._thread:
            return None
        span = recorder.phase(Phase.DATA)
        span.__enter__()
        return span


def _answered(span: AbstractContextManager[object], _: Any) -> None:
    span.__exit__(None, None, None)


def _ended(span: AbstractContextManager[object]) -> None:
    span.__exit__(None, None, None)
