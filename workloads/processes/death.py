"""Processes that do not outlive the one that started them."""

import ctypes
import os
import signal

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
