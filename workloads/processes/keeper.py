"""Keeps one rank under somebody else's launcher: forks it, tells of it, outlives its failure.

mpirun ends all ranks as soon as one of its processes fails. A keeper does not fail when its rank
does: the survivors stay for the collectors to see, and our launcher learns from waitpid, not from
mpirun's words, how each rank ended.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from types import FrameType

from workloads.processes.forking import forked
from workloads.processes.rank_report import Report
from workloads.processes.ring_state import read_ring_state
from workloads.processes.watching import last_line

POLL_SECONDS = 0.1
TELL_SECONDS = 0.5
KEPT_SECONDS = 60.0
"""How long a keeper whose rank failed waits for the launcher to end the run."""


class Keeper:
    """Runs a rank in a child process and tells of it.

    Args:
        ring: The rank's ring file.
        log: Where the rank writes.
        tell: Told of the rank twice a second, and once it has ended.
    """

    def __init__(
        self, rank: int, host: str, ring: Path, log: Path, tell: Callable[[Report], None]
    ) -> None:
        self._rank, self._host, self._ring, self._log = rank, host, ring, log
        self._tell = tell
        self._pid = 0
        self._status: int | None = None

    def keep(self, run: Callable[[], int]) -> int:
        """Do `run` in a child; the exit code for this process, once all has been told.

        Raises:
            OSError: The child could not be started.
        """
        signal.signal(signal.SIGTERM, self._end)
        self._pid = forked(run, self._log)
        failed_at = next_tell = monotonic()
        while True:
            now = monotonic()
            if self._status is None:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
                if pid:
                    self._status, failed_at, next_tell = status, now, now
            if now >= next_tell:
                self._tell(self._report())
                next_tell = now + TELL_SECONDS
            if self._status == 0:
                return 0
            if self._status is not None and now - failed_at > KEPT_SECONDS:
                code = os.waitstatus_to_exitcode(self._status)
                return code if code > 0 else 128 - code
            sleep(POLL_SECONDS)

    def _report(self) -> Report:
        last = "" if self._status is None else last_line(self._log)
        return Report(
            self._rank, self._host, self._pid, self._status, last, read_ring_state(self._ring)
        )

    def _end(self, number: int, frame: FrameType | None) -> None:
        """SIGTERM ends the rank as well, a stopped one too."""
        if self._pid and self._status is None:
            os.kill(self._pid, signal.SIGKILL)
        raise SystemExit(128 + number)
