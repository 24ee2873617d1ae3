"""Files in folders that others may write to: whatever lies there, nobody waits, nothing is shared.

Standard library only.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def opened_new(path: Path, flags: int) -> tuple[int, Path]:
    """A file beside the path, of a name that nobody else has: its descriptor and where it is.

    Raises:
        OSError: It cannot be made.
    """
    hidden = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.new")
    return os.open(hidden, flags | _NEW, 0o644), hidden


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in the place of what is there, at once.

    Raises:
        OSError: It cannot be written.
    """
    descriptor, hidden = opened_new(path, os.O_WRONLY)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        hidden.replace(path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


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
