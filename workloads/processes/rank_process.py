"""One rank from the side of the process that forked it."""

import os
from dataclasses import dataclass
from pathlib import Path

from collector.contract import ring
from workloads.processes.log_end import exception, last_words
from workloads.processes.ring_state import RingState, read_ring_state
from workloads.processes.watching import how_it_ended


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
        """How it ended, in words, with the exception or the last line that it wrote."""
        assert self.status is not None
        return how_it_ended(self.status, last_words(self.log))

    def raised(self) -> str:
        """The exception with which its log ends; empty = none."""
        return exception(self.log)

    def ring_state(self) -> RingState | None:
        """What its ring says; None before there is one."""
        return read_ring_state(self.node_dir / ring.file_name(self.rank))
