"""Processes that are started here: none outlives its parent, and each may stop in order."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, number: signal.Signals) -> None:
    """Ask the kernel to send this process `number` when its parent ends (prctl(2)).

    Args:
        parent: Process id of the parent as it knew it; if it has ended already, so do we.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)


_KEEPER = (
    "import os, signal, sys\n"
    "from lockstep.terminal.processes import die_with_parent\n"
    "die_with_parent(int(sys.argv[1]), signal.SIGTERM)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)
"""Becomes the command, which then ends when its parent is killed (prctl(2) survives exec)."""


def kept(words: Sequence[str]) -> list[str]:
    """A command that gets SIGTERM when this process ends, however it ends."""
    return [sys.executable, "-c", _KEEPER, str(os.getpid()), *words]


def stop(
    processes: "Sequence[subprocess.Popen[bytes]]", grace: float, *, groups: bool = False
) -> None:
    """Ask processes to stop, kill those that do not, and wait for them.

    Args:
        processes: Of this process; those that ended already are only waited for.
        grace: Seconds for all of them together.
        groups: Whether each leads a process group, of which the rest is killed in the end, too.
    """
    for process in processes:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
    until = monotonic() + grace
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - monotonic()))
        if groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
