"""Bounded reads of files that others wrote: regular files only, no links, never blocking."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockstep.collector.readings.source import Rejected, SourceError

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
FOREIGN = "foreign"
"""The reason of a file that is not of the user whose it must be."""
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


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
        raise _failed(path, error) from error


@contextmanager
def folder_opened(path: Path) -> Iterator[int]:
    """A descriptor of a folder, for paths below it (O_PATH): it stays that folder if it is renamed.

    A symbolic link on the way counts only where nobody but root and our own user may write to every
    folder before it: `/home` may be one. Behind a folder of others, as `/tmp`, none is followed.

    Raises:
        SourceError: Missing, not permitted, a link of others, or no folder. An OSError inside the
            block becomes one too.
    """
    try:
        descriptor = _folder(path.absolute())
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _failed(path, error) from error


@contextmanager
def opened_of(path: Path, user: int | None) -> Iterator[int]:
    """A read-only descriptor of a regular file whose path a user of this machine chose.

    The file is pinned before it is opened: opening a device, which a path may name, can do
    something. Whose it is, is asked of what was opened, and not of the path.

    Args:
        path: No link on the way is followed, as of `folder_opened`.
        user: Whose it must be; None = anybody's.

    Raises:
        SourceError: As `opened`, or it is of another user.
    """
    with pinned(path) as descriptor:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SourceError("not_regular", f"{path} is not a regular file")
        if user is not None and status.st_uid != user:
            raise SourceError(FOREIGN, f"{path} is of user {status.st_uid}, not of user {user}")
        opened = reopened(descriptor, os.O_RDONLY)
        try:
            yield opened
        finally:
            os.close(opened)


@contextmanager
def pinned(path: Path) -> Iterator[int]:
    """A descriptor (O_PATH) of whatever is there but a link, which is not opened.

    Raises:
        SourceError: Missing, not permitted, or a symbolic link on the way or at the end. An OSError
            inside the block becomes one too.
    """
    with folder_opened(path.parent) as folder:
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path.name, flags, dir_fd=folder)
        try:
            if stat.S_ISLNK(os.fstat(descriptor).st_mode):
                raise SourceError("symlink", f"{path} is a symbolic link")
            yield descriptor
        finally:
            os.close(descriptor)


def reopened(descriptor: int, flags: int) -> int:
    """A descriptor for reading or writing what one of `pinned` is of, without waiting."""
    return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _folder(path: Path) -> int:
    here, ours = os.open("/", _FOLDER), True
    try:
        for name in path.parts[1:]:
            ours = ours and _is_ours(os.fstat(here))
            below = _below(here, name, path, follow=ours)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here


def _below(folder: int, name: str, path: Path, *, follow: bool) -> int:
    try:
        return os.open(name, _FOLDER if follow else _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
            raise SourceError("symlink", f"{path}: {name} is a symbolic link") from None
        raise


def _is_ours(status: os.stat_result) -> bool:
    """Whether nobody but root and our user may write to a folder."""
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid in (0, os.geteuid()) and not writable


def _failed(path: Path, error: OSError) -> SourceError:
    return SourceError(_REASONS.get(error.errno or 0, "io"), f"{path}: {error.strerror}")


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
