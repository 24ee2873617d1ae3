"""Becomes a program that ends when whoever started it ends: `child.py PID PROGRAM ARGUMENT…`.

A function between fork and exec (Popen's preexec_fn) is not safe in a server with threads.
"""

import os
import signal
import sys

from lockstep.terminal.processes import die_with_parent


def main(words: list[str]) -> None:
    """Never returns.

    Args:
        words: Process id of the parent, then the program with its arguments.
    """
    # A dashboard in the background of a script ignores Ctrl-C, and exec would hand that on.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # SIGTERM lets the run close its archive.
    die_with_parent(int(words[0]), signal.SIGTERM)
    os.execv(words[1], words[1:])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
