"""Who runs what: one run at a time, the same for every browser and every tab."""

import fcntl
import json
import os
import threading
from pathlib import Path

from lockstep.collector.contract import bounded_json
from lockstep.dashboard.starting import process
from lockstep.dashboard.starting.plan import Plan
from lockstep.dashboard.starting.process import Job

LOG = "last.log"


class BusyError(Exception):
    """A run goes on already; the message is a sentence for the page."""


class Registry:
    """The runs of one folder, started by this process: the last one, and whether it goes on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._guard = threading.Lock()
        self._job: Job | None = None

    @property
    def job(self) -> Job | None:
        """The run that goes on, or the last one; None = none yet."""
        return self._job

    def taken(self) -> frozenset[str]:
        """Names that are there already."""
        return frozenset(os.listdir(self._folder))

    def start(self, plan: Plan) -> Job:
        """Start a run.

        Raises:
            BusyError: Another one goes on, here or in another process; or its folder is there.
            OSError: The folder cannot be written.
        """
        with self._guard:
            try:
                lock = take(self._folder, plan.name)
            except HeldError as error:
                raise BusyError(
                    f"One run at a time: {error} goes on. Wait until it ends, or stop it."
                ) from error
            try:
                if os.path.lexists(plan.out):
                    raise BusyError(f"The folder {plan.name} is there already; give another name.")
                log = self._folder / PLACE / LOG
                self._job = Job(plan, log, lock.handle, lock.release, process.PROGRAM)
            except BaseException:
                lock.release()
                raise
            return self._job


_REGISTRIES: dict[Path, Registry] = {}
_MAKING = threading.Lock()


def of(folder: Path) -> Registry:
    """The registry of a folder in this process."""
    with _MAKING:
        return _REGISTRIES.setdefault(folder.resolve(), Registry(folder.resolve()))


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
        document = bounded_json.loads(raw)
        name, pid = str(document["name"])[:40], int(document["pid"])
        return name if pid == os.getpid() else f"{name} of another dashboard, process {pid},"
    except (ValueError, KeyError, TypeError):
        return "a run of another process"
