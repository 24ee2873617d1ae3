"""The folder of a run's rings on a host, shared by ranks that have no launcher there.

The first rank of a host makes it, the last one removes it. Who is last, a lock tells: every rank
holds it shared, and the one that gets it for itself alone is the last.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lockstep.workloads.launch.processes import LOCK_FILE, OWNER_FILE, SHARED_MEMORY, owner
from lockstep.workloads.spec import RunSpec
from lockstep.workloads.tasks.registry import find

_DATA_LOCK = "data.lock"
_DATA = "data.path"


def default(run: str) -> Path:
    """Where the rings of a run go on this host: under LOCKSTEP_DIR, where a collector looks."""
    return Path(os.environ.get("LOCKSTEP_DIR") or SHARED_MEMORY) / run


@contextmanager
def shared(folder: Path) -> Iterator[None]:
    """The folder, for as long as a rank of this host is inside.

    Raises:
        OSError: It cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    fcntl.flock(lock, fcntl.LOCK_SH)
    try:
        with suppress(FileExistsError), (folder / OWNER_FILE).open("x") as file:
            json.dump(owner(), file)
        yield
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)
        with suppress(BlockingIOError):  # not the last
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def prepared(spec: RunSpec, folder: Path) -> Path:
    """What the task prepares, made once on this host, by whichever rank comes first.

    Raises:
        OSError: It cannot be written.
        DataError: The user's own data are wrong.
    """
    with (folder / _DATA_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = folder / _DATA
        if not said.exists():
            said.write_text(str(find(spec.workload).prepare(spec, folder)))
        return Path(said.read_text())
