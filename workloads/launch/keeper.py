"""Keeps one rank under somebody else's launcher: forks it, tells of it, outlives its failure.

mpirun ends all ranks as soon as one of its processes fails. A keeper does not fail when its rank
does: the survivors stay for the collectors to see, and our launcher learns from waitpid, not from
mpirun's words, how each rank ended. Nor does it end at once with a rank that ended well, where its
ring would go with it: what the rank did last is recorded first.
"""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep
from types import FrameType

from lockstep.collector.contract import bounded_json
from lockstep.workloads.launch.joining.job_file import ShapeError, built
from lockstep.workloads.launch.log_end import last_words
from lockstep.workloads.launch.processes import forked
from lockstep.workloads.launch.ring_state import RingState, read_ring_state

# A report is one line of JSON on standard output. Every line holds the whole state, so a line that
# mpirun tore or mixed up costs nothing.

MARK = "lockstep-rank "


@dataclass(frozen=True, slots=True)
class Report:
    """One rank as its keeper sees it.

    Attributes:
        pid: Of the rank's process, on its host; 0 before there is one.
        status: How it ended, as waitpid gives it; None while it runs.
        last: The exception with which its log ends, or the last line of it, once it has ended.
        told: What its ring says; None before there is one.
        refused: Why it was not started; empty = it was.
    """

    rank: int
    host: str
    pid: int = 0
    status: int | None = None
    last: str = ""
    told: RingState | None = None
    refused: str = ""

    def line(self) -> str:
        """The line to write."""
        return f"{MARK}{json.dumps(asdict(self))}\n"


def parsed(line: str) -> Report | None:
    """The report that a line is; None for any other."""
    _, mark, text = line.partition(MARK)
    if not mark:
        return None
    try:
        return built(Report, bounded_json.loads(text), "report")
    except (ShapeError, ValueError):
        return None


POLL_SECONDS = 0.1
TELL_SECONDS = 0.5
KEPT_SECONDS = 60.0
"""How long a keeper whose rank failed waits for the launcher to end the run."""
RECORDED_SECONDS = 4.0
"""How long it keeps the ring of a rank that ended well: the launcher, who has heard of the end,
scrapes twice more, with a pause of a second (collector.recorder)."""


class Keeper:
    """Runs a rank in a child process and tells of it.

    Args:
        ring: The rank's ring file.
        log: Where the rank writes.
        tell: Told of the rank twice a second, and once it has ended.
        ring_goes: The ring goes with this process.
    """

    def __init__(
        self, rank: int, host: str, ring: Path, log: Path, tell: Callable[[Report], None], *,
        ring_goes: bool = False,
    ) -> None:  # fmt: skip
        self._rank, self._host, self._ring, self._log = rank, host, ring, log
        self._tell, self._ring_goes = tell, ring_goes
        self._pid = 0
        self._status: int | None = None

    def keep(self, run: Callable[[], int]) -> int:
        """Do `run` in a child; the exit code for this process, once all has been told.

        Raises:
            OSError: The child could not be started.
        """
        signal.signal(signal.SIGTERM, self._end)
        self._pid = forked(run, self._log)
        ended_at = next_tell = monotonic()
        while True:
            now = monotonic()
            if self._status is None:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
                if pid:
                    self._status, ended_at, next_tell = status, now, now
            if now >= next_tell:
                self._tell(self._report())
                next_tell = now + TELL_SECONDS
            if self._status is not None and now - ended_at >= self._stays(self._status):
                code = os.waitstatus_to_exitcode(self._status)
                return code if code >= 0 else 128 - code
            sleep(POLL_SECONDS)

    def _stays(self, status: int) -> float:
        """For how many seconds after the end of its rank."""
        if status:
            return KEPT_SECONDS
        return RECORDED_SECONDS if self._ring_goes else 0.0

    def _report(self) -> Report:
        last = "" if self._status is None else last_words(self._log)
        return Report(
            self._rank, self._host, self._pid, self._status, last, read_ring_state(self._ring)
        )

    def _end(self, number: int, frame: FrameType | None) -> None:
        """SIGTERM ends the rank as well, a stopped one too."""
        if self._pid and self._status is None:
            os.kill(self._pid, signal.SIGKILL)
        raise SystemExit(128 + number)
