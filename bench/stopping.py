"""Who writes a benchmark's folder, by the lock that it holds."""

import fcntl
import os
import re
from pathlib import Path

from lockstep.runs.claim import FILE, MAX_BYTES

_WHO = re.compile(r"process (\d+) on (\S+)")


def writer(out: Path) -> int | None:
    """The process that holds the folder's lock; None = nobody does, or one of another machine."""
    import socket

    try:
        handle = os.open(out / FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        found = _WHO.search(os.pread(handle, MAX_BYTES, 0).decode("utf-8", "replace"))
        return int(found[1]) if found and found[2] == socket.gethostname() else None
    except OSError:
        return None
    finally:
        os.close(handle)
    return None
