"""Who runs on this machine now: two benchmarks at once would measure each other.

A lock of the kernel (flock(2)), so that a process that was killed holds nobody up; its text says
who has it. On a cluster Kueue queues instead.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lockstep.bench.spec import BenchError

FILE = "lockstep-bench.queue"
VARIABLE = "LOCKSTEP_BENCH_QUEUE"
"""In the environment: the file of another queue, for what shares nothing with the rest."""
_POLL_SECONDS = 0.5


def default_file() -> Path:
    """Of this machine and user, unless the environment names another."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    folder = Path("/dev/shm")  # noqa: S108 - one lock for all shells of a user
    return (folder if folder.is_dir() else Path("/tmp")) / f"{FILE}.{os.getuid()}"  # noqa: S108


@contextmanager
def turn(
    who: str, file: Path, on_wait: Callable[[str], None], timeout: float | None = None
) -> Iterator[None]:
    """Wait until nobody else measures on this machine; then it is ours until the block ends.

    Args:
        who: What the next one is told that it waits for.
        on_wait: Called with who is before us, whenever that changes.
        timeout: Seconds; None = for ever.

    Raises:
        BenchError: It lasted too long, or the lock cannot be had at all.
    """
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise BenchError(f"{file} cannot be opened: {error.strerror}") from error
    try:
        end, told = None if timeout is None else time.monotonic() + timeout, None
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                before = os.pread(handle, 200, 0).decode("utf-8", "replace").strip() or "another"
            if before != told:
                on_wait(told := before)
            if end is not None and time.monotonic() >= end:
                raise BenchError(f"still behind {before} after {timeout:g} s; wait, or stop it")
            time.sleep(_POLL_SECONDS)
        os.ftruncate(handle, 0)
        os.pwrite(handle, who.encode()[:200], 0)
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)
