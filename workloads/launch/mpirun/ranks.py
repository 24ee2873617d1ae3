"""The ranks of an mpirun, from the launcher's side: what their keepers tell through it."""

import os
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, sleep

from lockstep.workloads.launch.keeper import Report, parsed
from lockstep.workloads.launch.launcher import Ending, LaunchError, Outcome, Progress
from lockstep.workloads.launch.log_end import SHOWN_CHARACTERS, as_exception
from lockstep.workloads.launch.ring_state import RingState
from lockstep.workloads.launch.watching import POLL_SECONDS, by_itself, how_it_ended, watch
from lockstep.workloads.spec import RunSpec

STARTUP_SECONDS = 300.0
"""Every rank imports torch for itself, maybe from a cold disk or a network's."""
GRACE_SECONDS = 10.0
"""mpirun ends its ranks and waits for them, on other hosts too; keepers of ranks that ended well
leave within it (keeper.RECORDED_SECONDS)."""
GONE_SECONDS = 5.0
MAX_LINE = 1 << 16


@dataclass(slots=True)
class RemoteRank:
    """One rank by its keeper's last report."""

    rank: int
    listen: Callable[[], None]
    report: Report | None = None
    heard: float = 0.0

    @property
    def status(self) -> int | None:
        """How it ended, as waitpid told its keeper."""
        return None if self.report is None else self.report.status

    def reap(self) -> bool:
        """Whether its keeper has told that it ended."""
        self.listen()
        return self.status is not None

    def ring_state(self) -> RingState | None:
        """What its ring said, and a heartbeat as old as the report makes it."""
        if self.report is None or self.report.told is None:
            return None
        state = self.report.told
        return replace(state, heartbeat_age=state.heartbeat_age + monotonic() - self.heard)

    def how(self) -> str:
        """How it ended, in words."""
        assert self.report is not None
        assert self.report.status is not None
        return how_it_ended(self.report.status, self.report.last)

    def raised(self) -> str:
        """The exception that ended it; empty = none."""
        if self.report is None or not by_itself(self.report.status):
            return ""
        return as_exception(self.report.last)


@dataclass(slots=True)
class MpirunRanks:
    """All ranks of an mpirun; see launchers.Handle.

    Attributes:
        process: mpirun, in a process group of its own, its standard output a pipe.
        log: Where its standard error goes, and what is not a report.
        peak_flops: FLOP/s of one core in matrix products, measured before the ranks started.
    """

    spec: RunSpec
    process: subprocess.Popen[bytes]
    log: Path
    peak_flops: float | None = None
    _ranks: list[RemoteRank] = field(default_factory=list)
    _rest: bytes = b""
    _refused: str = ""
    _closed: bool = False
    _told_to_end: bool = False

    def __post_init__(self) -> None:
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._ranks = [RemoteRank(rank, self._listen) for rank in range(self.spec.layout.world)]

    @property
    def pids(self) -> dict[int, int]:
        """Process id by rank, each on its host."""
        return {
            watched.rank: watched.report.pid
            for watched in self._ranks
            if watched.report and watched.report.pid
        }

    def wait(self, on_progress: Callable[[Progress], None]) -> Outcome:
        """Watch until all ranks have ended; end them after a crash or a hang.

        Where all ended well their keepers are still there, with their rings, for
        keeper.RECORDED_SECONDS.

        Raises:
            LaunchError: No rank was ever heard of, or they are not where they were asked to be.
        """
        finished = False
        try:
            outcome = watch(
                self.spec, self._ranks, self.end, on_progress, self._lost, STARTUP_SECONDS
            )
            finished = outcome.ending is Ending.FINISHED
        finally:
            if not finished:
                self.end()
        return outcome

    def end(self) -> None:
        """End mpirun and every rank; returns when none is left on this host.

        Ranks that all ended well are followed by their keepers and by mpirun, which are awaited.
        """
        if all(watched.status == 0 for watched in self._ranks):
            self._wait(GRACE_SECONDS)
        if self.process.poll() is None:
            if not self._told_to_end:  # twice, and it would no longer wait for its ranks
                self._told_to_end = True
                self.process.terminate()
            if not self._wait(GRACE_SECONDS):
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self._listen()
        here = socket.gethostname()
        left = [
            watched.report.pid
            for watched in self._ranks
            if watched.report
            and watched.report.host == here
            and watched.status is None
            and watched.report.pid
        ]
        deadline = monotonic() + GONE_SECONDS
        # Their keepers die with mpirun, and they with their keepers, in the kernel's own time.
        while any(Path(f"/proc/{pid}").exists() for pid in left) and monotonic() < deadline:
            sleep(0.02)
        if self.process.stdout is not None:
            self.process.stdout.close()
            self._closed = True

    def _wait(self, seconds: float) -> bool:
        """Whether mpirun ends in so many seconds; its pipe is kept empty meanwhile."""
        deadline = monotonic() + seconds
        while self.process.poll() is None and monotonic() < deadline:
            self._listen()
            sleep(POLL_SECONDS / 5)
        return self.process.poll() is not None

    def _lost(self) -> str | None:
        self._listen()
        if self._refused:
            raise LaunchError(self._refused)
        code = self.process.poll()
        if code is None:
            return None
        self._listen()
        if all(watched.status is not None for watched in self._ranks):
            return None
        why = f"{Path(str(self.process.args[0])).name} ended with code {code}{self._last_words()}"  # type: ignore[index]
        if not any(watched.report for watched in self._ranks):
            raise LaunchError(f"no rank was started: {why}")
        return why

    def _last_words(self) -> str:
        """What mpirun said last, without the frames it draws around it."""
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines()]
        words = " ".join(line for line in lines if line.strip("-=+ |"))
        return f": {words[:SHOWN_CHARACTERS]}" if words else ""

    def _listen(self) -> None:
        """Take in what has come since."""
        if self._closed:
            return
        assert self.process.stdout is not None
        while True:
            try:
                came = os.read(self.process.stdout.fileno(), MAX_LINE)
            except BlockingIOError:
                return
            if not came:
                return
            *lines, rest = (self._rest + came).split(b"\n")
            self._rest = rest[-MAX_LINE:]
            for line in lines:
                self._hear(line.decode(errors="replace"))

    def _hear(self, line: str) -> None:
        report = parsed(line)
        if report is None:
            with self.log.open("a") as log:
                log.write(f"{line}\n")
        elif report.refused:
            self._refused = self._refused or report.refused
        elif 0 <= report.rank < len(self._ranks):
            one = self._ranks[report.rank]
            one.report, one.heard = report, monotonic()
