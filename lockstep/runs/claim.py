"""One writer a folder: whoever writes an archive or a score takes its folder first."""

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail

FILE = ".lockstep-writer"
"""Locked (flock(2)) for as long as its writer lives: the kernel frees it, so that none is stale."""
MAX_BYTES = 200
_TRIES = 100
"""Somebody who gives the folder back just then removes file and folder."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def claim_new_folder(out: Path) -> Iterator[None]:
    """Take a folder for a new archive; it is made where it is not there.

    What was made and stayed empty goes again.

    Raises:
        CommandError: 64, there is something in it, or somebody else writes it; 69, it cannot be
            read or written.
    """
    require_free(out)
    missing = [each for each in (out, *out.parents) if not os.path.lexists(each)]
    try:
        with claim_folder(out):
            _require_empty(out)
            yield
    finally:
        for each in missing:
            with suppress(OSError):  # there is something in it, or somebody else took it
                each.rmdir()


@contextmanager
def claim_folder(
    out: Path, file: str = FILE, option: str = "--out", *, locks: bool = False
) -> Iterator[None]:
    """Take a folder, whatever is in it: nobody else does until the block ends.

    Args:
        out: The folder; it is made where it is not there.
        file: Name of the lock in it: who writes something else there need not wait.
        option: Which names the folder, for the refusal.
        locks: Whether only a lock refuses: where the file system has none, nobody is refused.

    Raises:
        CommandError: 64, somebody else has it; 69, it cannot be written.
    """
    try:
        handle = _taken(out / file)
    except BlockingIOError as error:
        if locks and error.filename:
            yield
            return
        remedy = "wait for it or choose another"
        if error.filename:
            remedy += f", or remove {error.filename} if that is gone"
        fail(
            ExitCode.USAGE,
            f"{option} {out} is being written by {error.strerror}; {remedy}",
        )
    except (FileExistsError, NotADirectoryError):
        fail(ExitCode.USAGE, f"{option} {out} is not an empty folder; choose another")
    except OSError as error:
        fail(ExitCode.UNREACHABLE, f"cannot write {error.filename or out}: {error.strerror}")
    try:
        yield
    finally:
        with suppress(OSError):
            (out / file).unlink(missing_ok=True)  # while it is ours
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # also for ranks that have it open
        os.close(handle)


def require_free(out: Path) -> None:
    """Whether an archive can be made there, as far as one can tell without taking it.

    Raises:
        CommandError: 64, something is there; 69, nobody may look.
    """
    if os.path.lexists(out):
        _require_empty(out)


def _require_empty(out: Path) -> None:
    try:
        empty = all(each.name == FILE for each in out.iterdir())
    except NotADirectoryError:
        empty = False
    except OSError as error:
        fail(ExitCode.UNREACHABLE, f"cannot read {error.filename}: {error.strerror}")
    if not empty:
        fail(ExitCode.USAGE, f"--out {out} is not an empty folder; choose another")


def _taken(path: Path) -> int:
    """The locked file, open; its folder is made.

    Raises:
        BlockingIOError: Somebody else holds it; its strerror says who, and its filename is the
            file, where the file system has no locks and so would not free it.
        OSError: It cannot be made.
    """
    gone: OSError | None = None
    for _ in range(_TRIES):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, is_new = _opened(path)
        except FileNotFoundError as error:  # whoever had it removed file or folder just then
            gone = error
            continue
        try:
            _lock(handle, path, is_new=is_new)
            if os.fstat(handle).st_nlink:  # else whoever had it removed the file just then
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    raise gone or OSError(errno.EBUSY, "others come and go", str(path))


def _opened(path: Path) -> tuple[int, bool]:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644), True
    except FileExistsError:
        return os.open(path, flags), False


def _lock(handle: int, path: Path, *, is_new: bool) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        unknown = error.errno in _NO_LOCKS
        if unknown and is_new:
            return  # a file system without locks: then whoever made the file has it
        who = os.pread(handle, MAX_BYTES, 0).decode("utf-8", "replace") or "another process"
        raise BlockingIOError(errno.EWOULDBLOCK, who, str(path) if unknown else None) from error
