"""Steps of a torch program that was not changed: each step of its optimizer ends one.

Installed by hook/sitecustomize.py when torch has been imported. Everything that is needed is
imported here at once: afterwards our modules cannot be found any more.
"""

import os
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from lockstep.workloads.measure.flight_recorder import DumpOnRequest
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.sdk.coverage import held
from lockstep.workloads.sdk.dumps import Dumps
from lockstep.workloads.sdk.guard import Guard
from lockstep.workloads.sdk.holder import Means
from lockstep.workloads.sdk.pytorch import start as torch_start
from lockstep.workloads.sdk.recording import RingRecorder
from lockstep.workloads.sdk.start import UnwritableError, recorded, started
from lockstep.workloads.sdk.warning import pass_on, warn, warn_of

TORCH_WAITS, TORCH_DATA = held("waits"), held("data")


def start() -> None:
    """Record this process from now on, if it is the rank that trains."""
    with suppress(Exception):  # who does not tell of its start trains all the same
        torch_start.follow(os.environ)
    steps = OptimizerSteps(os.environ)
    guard = Guard()
    register_optimizer_step_pre_hook(guard.alone(steps.before))
    register_optimizer_step_post_hook(guard.alone(steps.after))


class OptimizerSteps:
    """The steps of the first optimizer of this process.

    Processes that import torch and never train (compiler workers, data workers, launchers) leave
    the ring to the one that does. A program that uses lockstep.recorder tells its steps itself.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._pid = os.getpid()
        self._optimizer: weakref.ref[torch.optim.Optimizer] | None = None
        self._recorder: RingRecorder | None = None
        self._writer: RingWriter | None = None
        self._span: AbstractContextManager[object] | None = None
        self._over = False
        self._record(trains=False)

    def before(self, optimizer: torch.optim.Optimizer, arguments: Any, named: Any) -> None:
        """Called by torch before every optimizer's step."""
        if not self._counts(optimizer) or self._recorder is None:
            return
        try:
            self._recorder.settle()
            self._span = self._recorder.phase("optimizer")
            self._span.__enter__()
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            self._give_up(error)

    def after(self, optimizer: torch.optim.Optimizer, arguments: Any, named: Any) -> None:
        """Called by torch after every optimizer's step."""
        if not self._counts(optimizer):
            return
        try:
            if self._recorder is None or not self._holds():
                self._record(trains=True)
            if self._span is not None:
                self._span.__exit__(None, None, None)
                self._span = None
            if self._recorder is not None:
                self._recorder.step_ended()
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            self._give_up(error)

    def _counts(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether a step of this optimizer is one of the program: the first one's is."""
        if self._over or os.getpid() != self._pid:
            return False
        first = None if self._optimizer is None else self._optimizer()
        if first is None:
            self._optimizer, first = weakref.ref(optimizer), optimizer
        return first is optimizer

    def _record(self, *, trains: bool) -> None:
        """Open the ring, unless it is another's."""
        self._stop()
        try:
            writer = started(self._environment, Means.OPTIMIZER, trains=trains)
            dumps = Dumps(writer.path.parent, writer.identity, DumpOnRequest)
            self._recorder = recorded(
                writer, lambda: RingRecorder(writer, dumps, TORCH_WAITS, TORCH_DATA, yields=True)
            )
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            pass_on(error)
            # Somebody else's ring is no fault: the program itself, or the process that trains.
            self._over = trains
            if not isinstance(error, UnwritableError) or not error.taken:
                warn(f"this rank is not recorded: {error}")
            return
        self._writer = writer

    def _holds(self) -> bool:
        """Whether the ring is ours, or nobody's yet."""
        if self._recorder is None or self._writer is None:
            return True
        try:
            return self._writer.inode_in_place() == self._writer.inode
        except OSError:
            return False

    def _give_up(self, error: Exception) -> None:
        pass_on(error)
        self._over = True
        self._stop()
        warn_of("this rank is not recorded from here on", error)

    def _stop(self) -> None:
        if self._recorder is not None:
            self._recorder.close()
        self._recorder, self._span = None, None
