"""Processes beside a launcher: forked, ended with it, and the owner of a run's folder."""

import fcntl
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from types import FrameType

from lockstep.collector.contract import bounded_json
from lockstep.terminal.processes import die_with_parent


def forked(run: Callable[[], int], log: Path) -> int:
    """Process id of a child that does `run`, writes to `log`, and ends with its exit code.

    It dies with this process. The caller must not have started a thread yet, for the child has
    only the thread that forked it.

    Raises:
        OSError: It could not be started.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid:
        os.close(writing)
        # Returns once the child is sure to die with us: one that is stopped before would stay.
        os.read(reading, 1)
        os.close(reading)
        return pid
    code = 1
    try:
        os.close(reading)
        die_with_parent(parent, signal.SIGKILL)
        os.close(writing)
        # Ctrl-C reaches the whole terminal group; the launcher alone decides what it means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        code = run()
    except BaseException:  # noqa: BLE001 - the rank's log is the only place that can say it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


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


# The owner of a run's folder of rings, and whether a process of the run still lives.

SHARED_MEMORY = Path("/dev/shm/lockstep")  # noqa: S108 - the place of docs/method/collecting.md
"""Where the folders are, one a run."""
OWNER_FILE = "owner.json"
"""Says who made the folder: {"pid", "start_ticks"}, the second because pids are reused."""
COMMAND_FILE = "command"
"""The line that started the run, secrets masked; a run whose launcher is ours has one."""
LOCK_FILE = "ranks.lock"
"""Each rank that has no launcher holds it shared (flock(2)), for as long as it lives."""


def owner() -> dict[str, int]:
    """This process, in the words of the owner file."""
    return {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}


def start_ticks(pid: int, proc: Path = Path("/proc")) -> int:
    """Start time of a process in clock ticks: proc(5), stat field 22.

    Raises:
        OSError: There is no such process.
    """
    # Field 2, the name, may hold spaces and brackets.
    stat = (proc / str(pid) / "stat").read_text()
    return int(stat.rpartition(")")[2].split()[19])


def lives(pid: int, ticks: int, proc: Path = Path("/proc")) -> bool:
    """Whether the process of that id and start time lives."""
    try:
        return start_ticks(pid, proc) == ticks
    except OSError:
        return False


def is_dead(folder: Path, proc: Path = Path("/proc")) -> bool:
    """Whether nobody of the run of a folder lives any more.

    Ranks without a launcher are judged by their lock, for any of them may end first; else the
    launcher decides. A folder without an owner file is nobody's, or is being made.
    """
    try:
        made_by = bounded_json.read(folder / OWNER_FILE)
        pid, ticks = int(made_by["pid"]), int(made_by["start_ticks"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    try:
        lock = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return not lives(pid, ticks, proc)
    except OSError:  # we may not ask
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held, or nobody can tell
        return False
    finally:
        os.close(lock)
    return True
