"""A rank's process, forked from the one that launches or keeps it."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

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
