"""Bounded reads of files that others wrote: regular files only, no links, never blocking."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collector.reading import Rejected, SourceError

MAX_ENTRIES = 4096
"""Directory entries looked at; a folder that anyone may write to can hold millions."""
ENVIRONMENT_LIMIT = 1 << 18

_REASONS = {
    errno.ENOENT: "missing",
    errno.ENOTDIR: "missing",
    errno.ESRCH: "missing",
    errno.EOPNOTSUPP: "missing",  # pressure files of a kernel booted with psi=0
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.ELOOP: "symlink",
}
_GONE_STATES = frozenset("ZXx")


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A read-only descriptor of a regular file.

    Raises:
        SourceError: Missing, not permitted, a symbolic link, or not a regular file. An OSError
            inside the block becomes one too.
    """
    # O_NONBLOCK: opening a FIFO for reading would otherwise wait for a writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SourceError("not_regular", f"{path} is not a regular file")
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, "io")
        raise SourceError(reason, f"{path}: {error.strerror}") from error


def read_bytes(path: Path, limit: int) -> bytes:
    """At most `limit` bytes of a regular file.

    Raises:
        SourceError: As `opened`.
    """
    with opened(path) as descriptor:
        chunks: list[bytes] = []
        left = limit
        while left > 0 and (chunk := os.read(descriptor, left)):
            chunks.append(chunk)
            left -= len(chunk)
        return b"".join(chunks)


def read_lines(path: Path, limit: int) -> list[str]:
    """The whole lines among the first `limit` bytes; a line without its end may lack digits.

    Raises:
        SourceError: As `opened`, or the file is not UTF-8.
    """
    whole = read_bytes(path, limit).rpartition(b"\n")[0]
    try:
        return whole.decode().split("\n") if whole else []
    except UnicodeDecodeError as error:
        raise SourceError("encoding", f"{path} is not UTF-8") from error


def process_lives(proc: Path, pid: int) -> bool:
    """Whether the process exists and is not a zombie.

    Raises:
        SourceError: The process table cannot be read.
    """
    try:
        text = read_bytes(proc / str(pid) / "stat", 4096)
    except SourceError as error:
        if error.reason == "missing":
            return False
        raise
    # The command name may hold anything, a closing parenthesis included: the state follows the
    # last one (proc(5)).
    fields = text.rpartition(b")")[2].split()
    return bool(fields) and fields[0].decode("ascii", "replace") not in _GONE_STATES


def environment(proc: Path, pid: int) -> dict[str, str]:
    """What a process was started with, as far as the first ENVIRONMENT_LIMIT bytes tell.

    Raises:
        SourceError: The process is gone, or its environment may not be read.
    """
    whole = read_bytes(proc / str(pid) / "environ", ENVIRONMENT_LIMIT).rpartition(b"\0")[0]
    pairs = (entry.partition("=") for entry in whole.decode("utf-8", "replace").split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def opening_failed(path: Path, error: OSError) -> Rejected:
    """How a file or folder that cannot be opened is left out."""
    return Rejected(_REASONS.get(error.errno or 0, "io"), f"{path}: {error.strerror}")
