"""Files that appear whole: no reader, and no full disk, ever sees half of one.

Standard library only.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def replacing(path: Path, *, mode: int | None = None, sync: bool = False) -> Iterator[BinaryIO]:
    """A new file beside the path, which takes its place when the block ends.

    Its name begins with a dot, and nobody else has it: in a folder that others may write to,
    nothing of theirs is followed or shared. When the block fails, what was there stays.

    Args:
        path: The file.
        mode: Permissions; None = 0o644 without what the umask takes.
        sync: Whether it is on the disk before it takes the place.

    Raises:
        OSError: It cannot be written.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.new")
    descriptor = os.open(new, _NEW, 0o644 if mode is None else mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)  # whatever the umask is
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise


def write_whole(
    path: Path,
    content: str | bytes | Iterable[str],
    *,
    mode: int | None = 0o644,
    sync: bool = False,
) -> Path:
    """Write a file whole or not at all; returns its path.

    Args:
        path: The file.
        content: All of it, or its parts; text is written as UTF-8.
        mode: As `replacing`.
        sync: As `replacing`.

    Raises:
        OSError: It cannot be written; what was there stays.
    """
    with replacing(path, mode=mode, sync=sync) as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            parts = (content,) if isinstance(content, str) else content
            file.writelines(part.encode() for part in parts)
    return path
