"""Cleans up after a launcher that could not: a process that waits for its end.

Ranks and collectors die with the launcher by themselves (death.py); what a killed launcher
leaves are files in shared memory, cgroups and network namespaces. The janitor is forked first,
sleeps on a pipe, and wakes when the last copy of the launcher's end closes, however that came
about (the ranks inherit a copy each, and end with the launcher).
"""

import os
import shutil
import signal
from pathlib import Path
from time import monotonic, sleep

from lockstep.workloads.faults import cgroup
from lockstep.workloads.network import namespaces
from lockstep.workloads.network.names import token

PATIENCE_SECONDS = 10.0
_DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Janitor:
    """Holds the launcher's end of the pipe; `dismiss` does the cleaning and waits for it."""

    def __init__(self, run: str, workspace: Path) -> None:
        self._run, self._workspace = run, workspace
        reading, self._writing = os.pipe2(os.O_CLOEXEC)
        # A signal between the fork and the child's deafness to it would end the janitor.
        signal.pthread_sigmask(signal.SIG_BLOCK, _DEAF_TO)
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._writing)
                _wait_and_clean(reading, run, workspace)
            finally:
                os._exit(0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _DEAF_TO)
        os.close(reading)

    def dismiss(self) -> None:
        """The run is over: clean now. All ranks must have ended."""
        os.close(self._writing)
        os.waitpid(self._pid, 0)
        clean(self._run, self._workspace)  # nothing left to do, unless somebody killed the janitor


def clean(run: str, workspace: Path) -> None:
    """Remove the run's rings, cgroups and network; what is busy is tried again for a while."""
    deadline = monotonic() + PATIENCE_SECONDS
    while not _cleaned(run, workspace) and monotonic() < deadline:
        sleep(0.1)


def _cleaned(run: str, workspace: Path) -> bool:
    try:
        # Before the rings: as long as they are there, they say whose namespaces these are.
        namespaces.remove(token(run))
        cgroup.remove(run)
    except OSError:  # a process of it still ends
        return False
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
    return not workspace.exists()


def _wait_and_clean(reading: int, run: str, workspace: Path) -> None:
    os.setsid()  # neither the terminal's Ctrl-C nor its hang-up reaches us
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    for descriptor in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    os.read(reading, 1)  # returns at the end of the file: nobody writes
    clean(run, workspace)
