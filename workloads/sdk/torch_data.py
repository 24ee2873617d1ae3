"""Times what torch's DataLoader makes the training thread wait for: phase `data`, from outside.

What counts is making the iterator (which starts or resets workers) and each of its `__next__`:
with workers the wait for the next batch, without them the loading itself. Every loader counts,
one of an evaluation as well, because the step waits for it either way. What does not count is time
inside a phase that the program opened itself: phases do not nest. So `recorder.steps(loader)` is
timed once, an evaluation marked as such stays one, and a data set that reads another loader is
part of the outer one's time. A thread that fetches ahead makes nobody wait.
"""

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from collector.contract.words import Phase
from workloads.recording import StepRecorder
from workloads.sdk.warning import warn


class TorchData:
    """The time of one thread in torch's DataLoader, as its StepRecorder's phase `data`."""

    def __init__(self) -> None:
        self._recorder: StepRecorder | None = None
        self._thread = threading.get_ident()

    def install(self) -> None:
        """Take the places, once."""
        for owner, name in ((DataLoader, "__iter__"), (_BaseDataLoaderIter, "__next__")):
            setattr(owner, name, self._timed(getattr(owner, name)))
        os.register_at_fork(after_in_child=self._forget)

    def use(self, recorder: StepRecorder | None) -> None:
        """Where the time goes from now on; None = nowhere."""
        self._recorder = recorder

    def _forget(self) -> None:
        """In a forked child: a worker's loading is not the rank's waiting."""
        self.use(None)

    def _timed(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def timed(loader: Any) -> Any:
            span = self._begun()
            try:
                return original(loader)
            finally:
                if span is not None:
                    self._ended(span)

        timed.__doc__ = original.__doc__
        return timed

    def _begun(self) -> AbstractContextManager[object] | None:
        recorder = self._recorder
        if recorder is None or recorder.in_phase or threading.get_ident() != self._thread:
            return None
        try:
            span = recorder.phase(Phase.DATA)
            span.__enter__()
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            self._give_up(error)
            return None
        return span

    def _ended(self, span: AbstractContextManager[object]) -> None:
        try:
            span.__exit__(None, None, None)
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self.use(None)
        warn(f"waiting in torch's DataLoader is not timed: {error}")
