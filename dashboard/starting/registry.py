"""Who runs what: one run at a time, the same for every browser and every tab."""

import os
import threading
from pathlib import Path

from dashboard.starting import process
from dashboard.starting.lock import PLACE, HeldError, take
from dashboard.starting.plan import Plan
from dashboard.starting.process import Job

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
