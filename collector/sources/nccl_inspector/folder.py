"""Which Inspector files of a folder are worth following: of living processes, then the newest."""

import os
import re
from collections.abc import Iterator
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from lockstep.collector.reading import Rejected

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
    found = nlargest(most, _dated(names, pids))
    if names.count > most or names.rest:
        more = "more than " if names.rest else ""
        names.rejected.append(
            Rejected(
                "too_many",
                f"{folder} holds {more}{names.count} files of NCCL Inspector; of those whose"
                f" process lives, then of the newest, {most} are followed",
            )
        )
    return found, names.rejected


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
