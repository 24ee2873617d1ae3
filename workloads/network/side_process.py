"""A small process beside the launcher: forked, ended with it, and whenever it is no more needed."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from types import FrameType

from lockstep.workloads.processes.forking import forked

GRACE_SECONDS = 2.0


class SideProcess:
    """Runs `work` until it returns or `end` is called; SIGTERM raises an exception in it.

    Args:
        work: What it does.
        log: Where it tells of what went wrong.
    """

    def __init__(self, work: Callable[[], None], log: Path) -> None:
        def run() -> int:
            signal.signal(signal.SIGTERM, _leave)
            with suppress(_LeaveError):
                work()
            return 0

        self._pid = forked(run, log)

    def end(self) -> None:
        """End it; returns when it is gone."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._ended():
                return
            os.kill(self._pid, number)
            deadline = monotonic() + GRACE_SECONDS
            while not self._ended() and monotonic() < deadline:
                sleep(0.01)

    def _ended(self) -> bool:
        if self._pid and os.waitpid(self._pid, os.WNOHANG)[0]:
            self._pid = 0
        return not self._pid


def _leave(number: int, frame: FrameType | None) -> None:
    raise _LeaveError


class _LeaveError(Exception):
    """The launcher needs this process no more."""
