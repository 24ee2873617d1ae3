"""Asks a rank of NCCL for its dump: torch writes one when something comes through its pipe."""

import errno
import os
import stat
from pathlib import Path

from collector.reading import SourceError

SUFFIX = ".pipe"
"""torch makes `<TORCH_NCCL_DEBUG_INFO_PIPE_FILE><rank>.pipe` and reads it about once a second."""


def request_dump(prefix: str, rank: int) -> Path:
    """Write to the pipe of a rank, without waiting for it; returns the pipe's path.

    Raises:
        SourceError: There is no such pipe, it is none, or nobody reads it.
    """
    path = Path(f"{prefix}{rank}{SUFFIX}")
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # Asked first: opening a device may do something.
        if not stat.S_ISFIFO(os.lstat(path).st_mode):
            raise SourceError("not_pipe", f"{path} is no pipe; torch would have made one")
        descriptor = os.open(path, flags)
        try:
            if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                raise SourceError("not_pipe", f"{path} is no pipe; torch would have made one")
            os.write(descriptor, b"1\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SourceError(*_why(path, error)) from error
    return path


def _why(path: Path, error: OSError) -> tuple[str, str]:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return (
                "missing",
                f"{path} does not exist; the rank needs TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
            )
        case errno.ENXIO:
            return "refused", f"nobody reads {path}; the rank has ended"
        case errno.EAGAIN:
            return "full", f"{path} is full; the rank does not read it any more"
        case errno.EACCES | errno.EPERM:
            return "permission", f"{path}: {error.strerror}"
        case _:
            return "io", f"{path}: {error.strerror}"
