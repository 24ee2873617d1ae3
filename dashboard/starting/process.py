"""One started run or report as a process: its stages, its log, its end."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import monotonic

from lockstep.collector.contract import threads
from lockstep.collector.contract.archive import RUN_FILE
from lockstep.collector.contract.words import ExitCode
from lockstep.dashboard.starting.plan import Plan
from lockstep.dashboard.starting.world import environment

PROGRAM: tuple[str, ...] = (sys.executable, "-m", "lockstep")
PATIENCE: tuple[tuple[signal.Signals, float], ...] = (
    (signal.SIGINT, 60.0),
    (signal.SIGTERM, 10.0),
    (signal.SIGKILL, 10.0),
)
"""What Stop sends, and how long it waits before the next. Closing an archive takes a second or two,
and longer on a machine that does much else; of SIGKILL the ranks die, too, and the run's janitor
removes their traces."""
WITHOUT_VERDICT = "--no-verdict"
"""Of `lockstep run`: whoever starts it here and wants a verdict has analysis and report follow."""
TAIL_BYTES = 64 * 1024


class Stage(StrEnum):
    """Where a started run is."""

    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    ANALYZING = "analyzing"
    REPORTING = "reporting"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A started run at one moment.

    Attributes:
        name: Of its folder.
        out: Its archive.
        command: What a person would type, and be told the verdict.
        stage: Where it is.
        seconds: Since it was started, until it was over.
        code: Exit code of `lockstep run`, negative by a signal; None = it goes on.
        stopped: Whether somebody asked it to stop.
        trouble: Why analysis or report did not follow; empty = they did, or were not wanted.
        log: The end of what it said.
        run: Its id; empty = run.json of the archive says it.
        behind: Of one that waits: behind whom.
    """

    name: str
    out: Path
    command: str
    stage: Stage
    seconds: float
    code: int | None
    stopped: bool
    trouble: str
    log: bytes
    run: str = ""
    behind: str = ""


class Job:
    """A run that was started; it ends when this process ends.

    A thread of its own starts and awaits it: the kernel tells a child of the death of the *thread*
    that started it (prctl(2), PR_SET_PDEATHSIG), and threads of web pages are short-lived.
    """

    def __init__(
        self, plan: Plan, log: Path, handle: int, on_over: Callable[[], None],
        program: Sequence[str] = PROGRAM,
    ) -> None:  # fmt: skip
        """Start it.

        Args:
            plan: What to run.
            log: File for what it says; overwritten.
            handle: The lock, which its processes keep open.
            on_over: Called once nothing of it runs any more, whatever happens.
            program: What the arguments follow.
        """
        self._plan, self._log, self._handle = plan, log, handle
        self._program, self._on_over = tuple(program), on_over
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stage, self._trouble = Stage.RUNNING, ""
        self._code: int | None = None
        self._stopped = False
        self._began = monotonic()
        self._ended: float | None = None
        self._over = threading.Event()
        self._thread = threads.task("run", self._live)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether nothing of it runs any more."""
        return self._over.is_set()

    def wait(self, seconds: float) -> bool:
        """Whether it was over within that time."""
        return self._over.wait(seconds)

    def stop(self) -> None:
        """Ask it to close its archive and end; insist after a patience. Twice is once."""
        with self._guard:
            if self._stopped or self.over:
                return
            self._stopped, self._stage = True, Stage.STOPPING
        threads.task("stop", self._end).start()

    def snapshot(self) -> Snapshot:
        """How it is now."""
        with self._guard:
            until = monotonic() if self._ended is None else self._ended
            return Snapshot(
                self._plan.name, self._plan.out, self._plan.command, self._stage,
                until - self._began, self._code, self._stopped, self._trouble, tail(self._log),
            )  # fmt: skip

    def _live(self) -> None:
        try:
            with self._log.open("wb") as log:
                code = self._do((*self._plan.arguments, WITHOUT_VERDICT), log.fileno())
                with self._guard:
                    self._code = code
                if self._plan.follow and (self._plan.out / RUN_FILE).exists():
                    self._follow(log.fileno())
        except OSError as error:
            self._trouble = f"A process could not be started: {error.strerror}."
        except Exception:
            self._trouble = "It could not be followed to its end; the log of the server says why."
            raise
        finally:
            with self._guard:
                self._ended, self._stage = monotonic(), Stage.OVER
            self._on_over()
            self._over.set()

    def _follow(self, log: int) -> None:
        for stage, command in ((Stage.ANALYZING, "analyze"), (Stage.REPORTING, "report")):
            with self._guard:
                if self._stopped:
                    return
                self._stage = stage
            code = self._do((command, str(self._plan.out)), log)
            # analyze speaks by codes 0 to 3 (docs/reference/command-line.md)
            if not 0 <= code <= (3 if stage is Stage.ANALYZING else 0):
                if not self._stopped:
                    self._trouble = f"lockstep {command} ended with code {code}; see the log."
                return

    def _do(self, arguments: Sequence[str], log: int) -> int:
        """Exit code of a program that was run to its end."""
        guarded = (sys.executable, "-m", "lockstep.dashboard.starting.child", str(os.getpid()))
        with self._guard:
            if self._stopped:
                return ExitCode.INTERRUPTED
            process = self._process = subprocess.Popen(
                [*guarded, *self._program, *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(),
                start_new_session=True, pass_fds=(self._handle,),
            )  # fmt: skip
        return process.wait()

    def _end(self) -> None:
        for number, patience in PATIENCE:
            with self._guard:
                process = self._process
            if process is not None and process.poll() is None:
                # To the run's own process: it ends its ranks and collectors in order. A group that
                # is interrupted as a whole would lose the collectors before the last scrape.
                with suppress(ProcessLookupError):
                    process.send_signal(number)
            if self._over.wait(patience):
                return


def tail(path: Path) -> bytes:
    """The end of a file, from the beginning of a line where it is long; empty without one."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            raw = file.read(TAIL_BYTES)
    except OSError:
        return b""
    return raw if size <= TAIL_BYTES else raw.partition(b"\n")[2]


PATIENCE_SECONDS = 300.0
WORDS_AT_MOST = 500
_ONE = threading.Lock()


def why_not(runs: Path | None, folder: Path) -> str:
    """Empty if pages may write into a folder, else why not, as a sentence."""
    if runs is None:
        return "This dashboard only reads: it was started without --runs."
    if not folder.resolve().is_relative_to(runs.resolve()):
        return f"This dashboard writes below {runs} only."
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"This process may not write to {folder}."
    return ""


def remake(folder: Path) -> str:
    """Empty if the report was written, else what is wrong, as a sentence."""
    if not _ONE.acquire(blocking=False):
        return "A report is being made already; try again in a moment."
    guarded = (sys.executable, "-m", "lockstep.dashboard.starting.child", str(os.getpid()))
    try:
        # First analyze: pages show its verdict.json, and the report says the same.
        for command in ("analyze", "report"):
            done = subprocess.run(
                [*guarded, *PROGRAM, command, str(folder)], env=environment(),
                stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_SECONDS,
                check=False, start_new_session=True,
            )  # fmt: skip
            if not 0 <= done.returncode <= (3 if command == "analyze" else 0):
                said = done.stderr.decode(errors="replace").strip().splitlines() or [""]
                return f"lockstep {command} ended with code {done.returncode}. {said[-1]}"[
                    :WORDS_AT_MOST
                ]
    except subprocess.TimeoutExpired:
        return f"The report was not ready after {PATIENCE_SECONDS:.0f} s, and was given up."
    except OSError as error:
        return f"The report could not be made: {error.strerror}."
    finally:
        _ONE.release()
    return ""
