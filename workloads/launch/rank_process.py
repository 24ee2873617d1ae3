"""One rank from the side of the process that forked it."""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from lockstep.collector.contract import ring
from lockstep.workloads.launch.log_end import exception, last_line
from lockstep.workloads.launch.ring_state import RingState, read_ring_state
from lockstep.workloads.launch.watching import by_itself, how_it_ended

LATE_SECONDS = 0.25
"""A step that a log tells is seen this late at most: what was written so long before it was seen
was written before it. A few of the supervisor's pauses (external_program.supervisor)."""


@dataclass(slots=True)
class RankProcess:
    """One rank: its process, and how it ended (`status` as waitpid gives it).

    Attributes:
        outlived: Bytes of its log after which it was seen to complete a step. An exception in them
            was handled.
    """

    rank: int
    pid: int
    node_dir: Path
    log: Path
    status: int | None = None
    outlived: int = 0
    _steps: int = 0
    _written: tuple[int, int] = (0, 0)
    _looked: float = -math.inf

    def reap(self) -> bool:
        """Whether the process has ended by now."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status is not None

    def how(self) -> str:
        """How it ended, in words, with the exception or the last line that it wrote."""
        assert self.status is not None
        last = exception(self.log, self.outlived) or last_line(self.log, self.outlived)
        return how_it_ended(self.status, last)

    def raised(self) -> str:
        """The exception that ended it or its work; empty = none."""
        return exception(self.log, self.outlived) if by_itself(self.status) else ""

    def ring_state(self) -> RingState | None:
        """What its ring says; None before there is one."""
        if monotonic() - self._looked >= LATE_SECONDS:
            self._looked, self._written = monotonic(), (self._written[1], _size(self.log))
        state = read_ring_state(self.node_dir / ring.file_name(self.rank))
        if state is not None and state.steps > self._steps:
            self._steps, self.outlived = state.steps, self._written[0]
        return state


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0
