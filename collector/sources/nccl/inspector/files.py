"""Files of Inspector: which to follow, and the whole lines that were added to each."""

import os
import re
import stat
from collections.abc import Iterator
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from lockstep.collector.files.opening import opened
from lockstep.collector.readings.source import Rejected

# Which Inspector files of a folder are worth following: of living processes, then the newest.

MAX_NAMES = 1 << 17
"""Names looked at in one folder and those below it."""
MAX_DATED = 4096
"""Files of no living process whose age is asked."""
MAX_FOLDERS = 256

_NAME = re.compile(r".{1,250}-pid([0-9]{1,10})\.log", re.ASCII)


class Log(NamedTuple):
    """A file that Inspector's name fits; sorts by what is worth more.

    Attributes:
        lives: Its process does.
        modified: Unix time.
        size: Bytes.
    """

    lives: bool
    modified: float
    size: int
    pid: int
    path: Path


def logs(folder: Path, pids: frozenset[int], most: int) -> tuple[list[Log], list[Rejected]]:
    """The files `<host>-pid<pid>.log` in the folder and one level below, at most `most`.

    Inspector's `.prom` files are left alone: they name no rank and are cut off in place. Only
    names are looked at, so that 100,000 files of dead processes cost little.

    Args:
        folder: The folder; one that is missing holds nothing.
        pids: Living processes.
        most: How many files.
    """
    names = _Names(folder)
    newest = nlargest(most, _dated(names, pids))
    if names.count > most or names.rest:
        more = "more than " if names.rest else ""
        names.rejected.append(
            Rejected(
                "too_many",
                f"{folder} holds {more}{names.count} files of NCCL Inspector; of those whose"
                f" process lives, then of the newest, {most} are followed",
            )
        )
    return newest, names.rejected


class _Names:
    """Entries whose name fits, counted as they pass."""

    def __init__(self, folder: Path) -> None:
        self.count = 0
        self.rest = False
        self.rejected: list[Rejected] = []
        self._folder = folder
        self._left = MAX_NAMES

    def __iter__(self) -> Iterator[tuple[int, os.DirEntry[str]]]:
        below: list[str] = []
        yield from self._of(str(self._folder), below)
        for path in sorted(below)[:MAX_FOLDERS]:
            yield from self._of(path, [])

    def _of(self, path: str, below: list[str]) -> Iterator[tuple[int, os.DirEntry[str]]]:
        try:
            with os.scandir(path) as entries:
                for entry in islice(entries, self._left):
                    self._left -= 1
                    match = _NAME.fullmatch(entry.name)
                    if match is not None:
                        self.count += 1
                        yield int(match[1]), entry
                    elif len(below) < MAX_FOLDERS and entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
                self.rest |= self._left == 0
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            reason = "permission" if isinstance(error, PermissionError) else "io"
            self.rejected.append(Rejected(reason, f"{path}: {error.strerror}"))


def _dated(names: _Names, pids: frozenset[int]) -> Iterator[Log]:
    dated = 0
    for pid, entry in names:
        lives = pid in pids
        if not lives:
            dated += 1
            if dated > MAX_DATED:
                continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue  # removed since it was listed
        yield Log(lives, status.st_mtime, status.st_size, pid, Path(entry.path))


CHUNK = 1 << 18
"""Bytes of one read, and the longest line."""
MAX_LAG = 16 << 20
"""Bytes that may wait; of more, all but the last CHUNK are passed over."""
SKIP_BYTES = 64 << 20
"""Bytes passed over in one read; they are read too, to count their lines."""
MARK = 256


class Tail:
    """A file from where it was last read on.

    Args:
        path: The file.
        start: Bytes at its beginning that are not wanted.

    Attributes:
        dropped: Lines passed over so far.
        too_long: Lines longer than CHUNK so far.
        offset: Bytes that were read, up to the end of a line.
        lost: Times that the file was begun anew before all of it was read.
    """

    def __init__(self, path: Path, start: int = 0) -> None:
        self.path = path
        self.dropped = self.too_long = self.lost = 0
        self._start = start
        self._file: tuple[int, int] | None = None
        self._seen: tuple[int, int, int] | None = None
        self._size = self.offset = 0
        self._mark = b""
        self._inside = False

    @property
    def begun(self) -> bool:
        """Whether it was read at all."""
        return self._file is not None

    def memory(self) -> list[Any]:
        """What `recall` needs to go on here, as JSON values; once it has begun."""
        return [*(self._file or ()), self.offset, self._mark.hex(), self._inside]

    def recall(self, device: int, inode: int, offset: int, mark: str, inside: bool) -> None:
        """Go on where an earlier process stopped, if the file is still what that one read.

        Raises:
            ValueError: It is not a memory.
        """
        raw = bytes.fromhex(mark)
        numbers = (device, inode, offset)
        if any(type(number) is not int or number < 0 for number in numbers) or len(raw) != min(
            MARK, offset
        ):
            raise ValueError(f"{self.path}: {numbers} is not a place in a file")
        self._file, self._size = (device, inode), offset
        self.offset, self._mark, self._inside = offset, raw, inside is True

    def read(self) -> bytes:
        """The next whole lines, at most CHUNK bytes of them; empty when it is the next one's turn.

        Raises:
            SourceError: The file is gone, a link, or cannot be read.
        """
        if self._unchanged():
            return b""
        with opened(self.path) as descriptor:
            status = os.fstat(descriptor)
            self._meet(descriptor, status)
            if status.st_size - self.offset > MAX_LAG:
                self._skip(descriptor, status.st_size - CHUNK)
                return b""
            text = os.pread(descriptor, CHUNK, self.offset)
            self._size = max(status.st_size, self.offset + len(text))
            if self.offset + len(text) >= status.st_size:
                self._seen = _identity(status)
        return self._whole(text)

    def _unchanged(self) -> bool:
        """Whether the file is as when all of it had been read; saves opening it."""
        if self._seen is None:
            return False
        try:
            status = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False  # opening it will say why
        return stat.S_ISREG(status.st_mode) and _identity(status) == self._seen

    def _meet(self, descriptor: int, status: os.stat_result) -> None:
        """Begin at the right place if this is another file, or another content, than before."""
        file = (status.st_dev, status.st_ino)
        if self._file is None:
            self._file = file
            self._go(descriptor, min(self._start, status.st_size))
            return
        same = file == self._file and status.st_size >= self.offset
        # Cut off and grown past where we were: its size says nothing, the bytes before do.
        if same and self._mark == os.pread(
            descriptor, len(self._mark), self.offset - len(self._mark)
        ):
            return
        self.lost += self._size > self.offset
        self._file, self.offset, self._mark, self._inside = file, 0, b"", False

    def _go(self, descriptor: int, offset: int) -> None:
        self.offset = offset
        self._mark = os.pread(descriptor, min(MARK, offset), max(0, offset - MARK))
        self._inside = not self._mark.endswith(b"\n") and offset > 0

    def _skip(self, descriptor: int, end: int) -> None:
        """Pass over what waits, up to `end`; a line that is cut is one that was passed over."""
        ends = -int(self._inside)  # the end of a line that was given up before
        left = SKIP_BYTES
        while self.offset < end and left > 0:
            text = os.pread(descriptor, min(1 << 20, end - self.offset), self.offset)
            if not text:
                break
            ends += text.count(b"\n")
            left -= len(text)
            self._go(descriptor, self.offset + len(text))
        self.dropped += ends + self._inside

    def _whole(self, text: bytes) -> bytes:
        """The whole lines of what was read at the offset; moves it behind them."""
        end = text.rfind(b"\n") + 1
        if end == 0 and len(text) == CHUNK:
            self.too_long += not self._inside
            self._inside, end = True, CHUNK
            self._mark = text[-MARK:]
            self.offset += CHUNK
            return b""
        if end == 0:
            return b""
        self.offset += end
        self._mark = (self._mark + text[max(0, end - MARK) : end])[-MARK:]
        start = text.find(b"\n") + 1 if self._inside else 0
        self._inside = False
        return text[start:end]


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns
