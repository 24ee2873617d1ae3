"""Files of the kernel that are kept open between readings, and the limit of descriptors."""

import contextlib
import errno
import os
import resource
from pathlib import Path

from lockstep.collector.files.opening import opened
from lockstep.collector.readings.source import SourceError

# How many descriptors this process may have, and which part of them who may hold.

WANTED = 4096
"""Enough for everything at once; a service is often started with 1024, and may have more."""


def raise_limit() -> None:
    """Take as many as this process may have without asking anybody, up to WANTED."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # what there is has to do
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def share(part: int, most: int) -> int:
    """One in `part` of all descriptors, at least 2 and at most `most`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(2, min(most, soft // part))


LIMIT = 256
"""Bytes that are looked at; a sysfs attribute of one value is shorter."""
CHUNK = 1 << 14
MAX_HELD = 512
"""Files kept open; those beyond are opened anew, so that the process keeps descriptors to spare."""
DESCRIPTOR_SHARE = 8
"""Of all descriptors that this process may have, one in so many is for one holder's files."""


class PersistentFds:
    """Reads again what is already open: 1 µs in place of 10 for an attribute of sysfs.

    A file that was removed is opened anew, so that its successor of the same name is read. sysfs
    says so by ENODEV (kernfs drains open files when a device goes); elsewhere the link count does.
    """

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._most = share(DESCRIPTOR_SHARE, MAX_HELD)

    def read(self, path: str) -> bytes:
        """The first LIMIT bytes.

        Raises:
            SourceError: As `lockstep.collector.files.opening.opened`.
        """
        text = self._again(path)
        if text is not None:
            return text
        with opened(Path(path)) as descriptor:
            text = os.pread(descriptor, LIMIT, 0)
            if len(self._open) < self._most:
                self._open[path] = os.dup(descriptor)
        return text

    def close_below(self, folder: str) -> None:
        """Close what is held below a folder, because its device has gone."""
        for path in [path for path in self._open if path.startswith(f"{folder}/")]:
            os.close(self._open.pop(path))

    def close(self) -> None:
        """Close everything."""
        while self._open:
            os.close(self._open.popitem()[1])

    __del__ = close

    def _again(self, path: str) -> bytes | None:
        descriptor = self._open.get(path)
        if descriptor is None:
            return None
        try:
            if os.fstat(descriptor).st_nlink:
                return os.pread(descriptor, LIMIT, 0)
        except OSError as error:
            if error.errno == errno.EINVAL:
                # The driver refuses: to ask once more only writes another line into its log.
                os.close(self._open.pop(path))
                raise SourceError("io", f"{path}: {error.strerror}") from error
            # Opening it anew tells what is wrong, if it still is.
        os.close(self._open.pop(path))
        return None


class PersistentFd:
    """One file of the kernel, of any length, that is read again and again.

    Args:
        path: The file; it may come and go.
        limit: Bytes that are looked at.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self._limit = limit
        self._descriptor: int | None = None

    def exists(self) -> bool:
        """Whether it is there, or was when it was read last."""
        return self._descriptor is not None or self.path.exists()

    def read(self) -> bytes:
        """The whole lines among the first `limit` bytes; a line without its end may lack digits.

        Raises:
            SourceError: As `lockstep.collector.files.opening.opened`.
        """
        text = self._again()
        if text is None:
            with opened(self.path) as descriptor:
                text = self._whole(descriptor)
                self._descriptor = os.dup(descriptor)
        return text[: text.rfind(b"\n") + 1]

    def close(self) -> None:
        """Close it; the next reading opens it anew."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    __del__ = close

    def _again(self) -> bytes | None:
        """What is read from the open file, or None if there is none or it was removed."""
        if self._descriptor is None:
            return None
        try:
            if os.fstat(self._descriptor).st_nlink:
                return self._whole(self._descriptor)
        except OSError:
            pass  # opening it anew tells what is wrong, if it still is
        self.close()
        return None

    def _whole(self, descriptor: int) -> bytes:
        # A small buffer first: one of a megabyte costs more to allocate than the file to read.
        text = os.pread(descriptor, min(CHUNK, self._limit), 0)
        while text and len(text) < self._limit:
            more = os.pread(descriptor, min(CHUNK, self._limit - len(text)), len(text))
            if not more:
                break
            text += more
        return text
