"""The parent of one external program: ends all of it, follows its log, and ends like it.

A process between the launcher and the program. It adopts whatever the program leaves (prctl(2),
PR_SET_CHILD_SUBREAPER), so that nothing of it stays, even when the launcher is killed.
"""

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import NoReturn

from lockstep.collector.contract import ring
from lockstep.terminal.processes import die_with_parent
from lockstep.workloads.launch.external_program.choice import Choice
from lockstep.workloads.launch.external_program.follow import Follower
from lockstep.workloads.launch.ring_state import say_failed

LOOK_SECONDS = 0.02
"""How finely steps in a log are timed; a look costs about 20 microseconds."""
GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL."""
NOT_STARTED_CODE = 127
"""As a shell says it."""
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Program:
    """One rank's program.

    Attributes:
        step_pattern: Finds steps in the log; None = the known forms.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    step_pattern: str | None = None


def supervise(program: Program, launcher: int) -> NoReturn:
    """Run the program in this process, which was forked for it; never returns."""
    code = 1
    try:
        os.setsid()  # Ctrl-C reaches the launcher alone, which decides what it means
        die_with_parent(launcher, signal.SIGTERM)
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        code = _Supervisor(program).run()
    except BaseException as error:  # noqa: BLE001 - the log is the only place that can say it
        os.write(2, f"lockstep: the supervisor of this rank failed: {error!r}\n".encode())
    finally:
        _end_family()
        _end_like(code)


class _Supervisor:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._told_to_end = False
        self._pid = 0
        signal.signal(signal.SIGTERM, self._note)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def run(self) -> int:
        """Start the program and wait for it; its wait status."""
        program = self._program
        log = os.open(program.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        pid = self._pid = _start(program)
        follower = Follower(program.log, Choice(program.step_pattern), program.environment)
        status = None
        while status is None and not self._told_to_end:
            sleep(LOOK_SECONDS)
            status = _reaped(pid)
            follower.look(alive=_runs(pid))
        if status is None:
            return signal.SIGTERM
        code = os.waitstatus_to_exitcode(status)
        follower.close(code)
        if code > 0:
            own = program.environment
            with suppress(OSError, ValueError):  # no ring, or none of this rank
                say_failed(Path(own["LOCKSTEP_DIR"]) / ring.file_name(int(own["RANK"])))
        return status

    def _note(self, number: int, frame: object) -> None:
        # At once, so that all ranks end together: one that is gone early looks like the culprit.
        if self._pid and not self._told_to_end:
            _send(-self._pid, signal.SIGTERM)
        self._told_to_end = True


def _start(program: Program) -> int:
    """Fork and become the program; its pid."""
    supervisor = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)  # what it sends to its group does not reach us
        # Python ignores SIGPIPE, and we SIGINT: the program must not inherit it.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent(supervisor, signal.SIGKILL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execvpe(program.command[0], program.command, program.environment)  # noqa: S606
    except OSError as error:
        os.write(2, f"{program.command[0]} cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(NOT_STARTED_CODE)


def _reaped(pid: int) -> int | None:
    """The status of the program once it has ended; adopted processes are reaped as well."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended == 0:
            return None
        if ended == pid:
            return status


def _runs(pid: int) -> bool:
    """Whether the process is neither stopped nor gone (proc(5), stat field 3)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"T", "t", "Z", "X"}


def _end_family() -> None:
    """End every process below this one; stopped ones too."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = monotonic() + GRACE_SECONDS
        signalled: set[int] = set()
        while family := _descendants(os.getpid()):
            for pid in family - signalled:
                _send(pid, number)
                _send(pid, signal.SIGCONT)
            signalled |= family
            _reaped(0)
            if monotonic() > deadline:
                break
            sleep(LOOK_SECONDS)
        else:
            return


def _descendants(ancestor: int) -> set[int]:
    """Processes below one, zombies left out (proc(5), stat fields 3 and 4)."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state not in {"Z", "X"}:
            children.setdefault(int(parent), []).append(int(entry.name))
    descendants: set[int] = set()
    todo = [ancestor]
    while todo:
        below = children.get(todo.pop(), [])
        descendants.update(below)
        todo.extend(below)
    return descendants


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has just ended


def _end_like(status: int) -> NoReturn:
    """Exit with the program's code, or by its signal, without a core file of ours."""
    sys.stdout.flush()
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)
