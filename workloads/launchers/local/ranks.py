"""The ranks of a local run, from the launcher's side: processes that it forked."""

import os
import signal
from collections.abc import Callable
from time import monotonic, sleep

from lockstep.workloads.launchers import Outcome, Progress
from lockstep.workloads.processes.rank_process import RankProcess
from lockstep.workloads.processes.watching import POLL_SECONDS, watch
from lockstep.workloads.spec import RunSpec

GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL."""


class Ranks:
    """All ranks of a run; see launchers.Handle.

    Attributes:
        peak_flops: FLOP/s of one core in matrix products, measured before the ranks started.
    """

    def __init__(
        self, spec: RunSpec, ranks: list[RankProcess], peak_flops: float | None = None
    ) -> None:
        self.peak_flops = peak_flops
        self._spec = spec
        self._ranks = ranks

    @property
    def pids(self) -> dict[int, int]:
        """Process id by rank."""
        return {process.rank: process.pid for process in self._ranks}

    def wait(self, on_progress: Callable[[Progress], None]) -> Outcome:
        """Watch until all ranks have ended; end them after a crash or a hang."""
        return watch(self._spec, self._ranks, self.end, on_progress)

    def end(self) -> None:
        """End every rank that still runs; stopped ones too."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._ranks:
                if not process.reap():
                    os.kill(process.pid, number)
                    os.kill(process.pid, signal.SIGCONT)
            deadline = monotonic() + GRACE_SECONDS
            while not all(process.reap() for process in self._ranks):
                if monotonic() > deadline:
                    break
                sleep(POLL_SECONDS / 5)
            else:
                return
