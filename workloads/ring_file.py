"""Files in the folder of a node's rings, and the ring file itself: its memory and its identity."""

import fcntl
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import GROUPS
from lockstep.workloads.measure.process import pid_namespace

# Other users may write to these folders: a link, a pipe or a device in one is neither followed nor
# waited for.

_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def opened_new(path: Path, flags: int) -> tuple[int, Path]:
    """A file beside the path, of a name that nobody else has: its descriptor and where it is.

    Raises:
        OSError: It cannot be made.
    """
    hidden = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.new")
    return os.open(hidden, flags | _NEW, 0o644), hidden


@contextmanager
def reading(path: Path) -> Iterator[int | None]:
    """The descriptor of a regular file; None where there is none that may be read."""
    try:
        descriptor = os.open(path, _READ)
    except (OSError, ValueError):
        yield None
        return
    try:
        yield descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)


def head(path: Path, size: int) -> bytes | None:
    """The first bytes of a regular file; None where there is none, or a shorter one."""
    with reading(path) as descriptor:
        return None if descriptor is None else head_of(descriptor, size)


def head_of(descriptor: int, size: int) -> bytes | None:
    """The first bytes of an open file; None where it is shorter, or cannot be read."""
    try:
        content = os.pread(descriptor, size, 0)
    except OSError:
        return None
    return content if len(content) == size else None


@dataclass(frozen=True, slots=True)
class Identity:
    """Who writes the ring; see contract/ring.IDENTITY.

    Attributes:
        clock_offset_ns: To add to monotonic + wall_minus_monotonic_ns for the run's clock, which
            is rank 0's wall clock; renewed by RingWriter.clock.
        clock_error_ns: What that is at most away from the truth.
    """

    run: str
    node: str
    uuid: str
    rank: int
    world: int
    local_rank: int
    attempt: int
    dp: int
    pp: int
    tp: int
    gpu: int
    start_wall_ns: int
    wall_minus_monotonic_ns: int
    clock_offset_ns: int = 0
    clock_error_ns: int = 0


def create(path: Path, who: Identity) -> tuple[mmap.mmap, Path, int]:
    """A file of the contract's size that holds the identity and the names of the groups.

    Returns:
        Its bytes, where it is until somebody puts it in its place, and its inode.

    Raises:
        OSError: There is no room for it.
        struct.error: The identity holds a number that the ring does not.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, hidden = opened_new(path, os.O_RDWR)
    try:
        return _filled(descriptor, who), hidden, os.fstat(descriptor).st_ino
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _filled(descriptor: int, who: Identity) -> mmap.mmap:
    # Not ftruncate: a full shared memory must say so here, not by SIGBUS in a store.
    os.posix_fallocate(descriptor, 0, ring.FILE_BYTES)
    page = mmap.mmap(descriptor, ring.FILE_BYTES)
    for index, name in enumerate(GROUPS):
        offset = ring.GROUP_NAMES_OFFSET + index * ring.GROUP_NAME_BYTES
        page[offset : offset + ring.GROUP_NAME_BYTES] = padded(name, ring.GROUP_NAME_BYTES)
    ring.IDENTITY.pack_into(
        page, ring.IDENTITY_OFFSET, ring.MAGIC, ring.VERSION, ring.HEADER_BYTES,
        padded(who.run, 64), padded(who.node, 64), padded(who.uuid, 48),
        who.rank, who.world, who.local_rank, who.attempt, os.getpid(), who.dp, who.pp, who.tp,
        0, 0, who.gpu, 0,
        who.start_wall_ns, who.wall_minus_monotonic_ns, who.clock_offset_ns, who.clock_error_ns,
        ring.OP_CAPACITY, ring.STEP_CAPACITY, ring.OP_RECORD.size, ring.STEP_RECORD.size,
    )  # fmt: skip
    ring.PID_NAMESPACE.pack_into(page, ring.PID_NAMESPACE_OFFSET, pid_namespace())
    ring.LOCKED.pack_into(page, ring.LOCKED_OFFSET, _locked(descriptor))
    return page


def _locked(descriptor: int) -> bool:
    """Lock the file at once or not at all; the mapping's own descriptor keeps the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def padded(text: str, size: int) -> bytes:
    """UTF-8 in so many bytes, cut to leave at least one zero byte."""
    return text.encode()[: size - 1].decode(errors="ignore").encode().ljust(size, b"\0")
