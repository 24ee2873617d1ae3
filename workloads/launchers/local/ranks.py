"""The ranks of a local run, from the launcher's side: processes that it forked."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from collector.contract import ring
from workloads.launchers import Outcome, Progress
from workloads.processes.told import Told, told_by
from workloads.processes.watching import POLL_SECONDS, how_it_ended, last_line, watch
from workloads.spec import RunSpec

GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL."""


@dataclass(slots=True)
class RankProcess:
    """One rank: its process, and how it ended (`status` as waitpid gives it)."""

    rank: int
    pid: int
    node_dir: Path
    log: Path
    status: int | None = None

    def reap(self) -> bool:
        """Whether the process has ended by now."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status is not None

    def how(self) -> str:
        """How it ended, in words, with the last line it wrote."""
        assert self.status is not None
        return how_it_ended(self.status, last_line(self.log))

    def told(self) -> Told | None:
        """What its ring says; None before there is one."""
        return told_by(self.node_dir / ring.file_name(self.rank))


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
