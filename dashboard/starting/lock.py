"""One run at a time in a folder, whoever starts it: a lock that the kernel frees."""

import fcntl
import json
import os
from pathlib import Path

from collector.contract import bounded_json

PLACE = ".starting"
"""Folder, among the archives, of the lock and of the log."""
FILE = "lock"
MAX_BYTES = 4096


class HeldError(Exception):
    """Somebody else holds it; the message says who, as far as it is known."""


class Lock:
    """flock(2) on a file, shared with the run: it is free once the dashboard *and* the run ended.

    The kernel frees it however they end, so none is ever stale.
    """

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def release(self) -> None:
        """Free it, also for processes that still have it open."""
        fcntl.flock(self.handle, fcntl.LOCK_UN)
        os.close(self.handle)


def take(folder: Path, name: str) -> Lock:
    """Take the lock of a folder of archives for a run.

    Raises:
        HeldError: It is held.
        OSError: The folder cannot be written.
    """
    place = folder / PLACE
    place.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(place / FILE, flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _holder(os.pread(handle, MAX_BYTES, 0))
        os.close(handle)
        raise HeldError(holder) from error
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps({"pid": os.getpid(), "name": name}).encode(), 0)
    except OSError:
        os.close(handle)
        raise
    return Lock(handle)


def _holder(raw: bytes) -> str:
    try:
        told = bounded_json.loads(raw)
        name, pid = str(told["name"])[:40], int(told["pid"])
        return name if pid == os.getpid() else f"{name} of another dashboard, process {pid},"
    except (ValueError, KeyError, TypeError):
        return "a run of another process"
