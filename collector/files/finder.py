"""Files of a folder that anyone may write to, found part by part: however many there are."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lockstep.collector.files.opening import MAX_ENTRIES, opening_failed
from lockstep.collector.readings.source import Rejected

MAX_BELOW = 1024
"""Entries looked at in one folder below before the turn of the others comes."""
MAX_AT_ONCE = 1 << 14
"""Entries that are looked at where nobody comes back for the rest."""
MAX_HALFWAY = 4
"""Folders below that are gone on with in the next round, each holding a descriptor; of others no
more than their first entries are seen until one of these has come to its end."""


class Part(NamedTuple):
    """What one look found.

    Attributes:
        names: Paths of the files, as text: thousands of them cost less so.
        whole: These are all files there are; otherwise the next look goes on where this ended.
    """

    names: list[str]
    rejected: list[Rejected]
    whole: bool

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [Path(name) for name in self.names]


def find(folder: Path, prefix: str, suffix: str) -> tuple[list[Path], list[Rejected]]:
    """Files `<prefix>*<suffix>` in the folder and directly below it, for who looks but once."""
    part = Finder(folder, prefix, suffix, MAX_AT_ONCE, MAX_ENTRIES).look()
    return part.paths, part.rejected


class Finder:
    """Files `<prefix>*<suffix>` in a folder and in the folders directly below it.

    One level down because on Kubernetes each pod has its own folder. Symbolic links are listed (and
    then refused on opening) but never followed to a folder. A missing folder holds nothing; one
    that cannot be listed is rejected alone. Each look costs the same, however many entries there
    are; what one does not reach, a later one does.

    Args:
        most: Entries looked at in one look.
        most_below: Of one folder below, before the turn of the others comes.
    """

    def __init__(
        self,
        folder: Path,
        prefix: str,
        suffix: str,
        most: int = MAX_ENTRIES,
        most_below: int = MAX_BELOW,
    ) -> None:
        self._folder = folder
        self._most, self._most_below = most, most_below
        self._prefix, self._suffix = prefix, suffix
        self._walk: Iterator[str | None] | None = None
        self._halfway: dict[Path, Iterator[os.DirEntry[str]]] = {}
        self._rejected: list[Rejected] = []
        self._cut = False

    def look(self) -> Part:
        """The next part; sorted."""
        begins = self._walk is None
        if begins:
            self._cut = False
        walk = self._walk or self._round()
        paths: list[str] = []
        ended = False
        for _ in range(self._most):
            try:
                path = next(walk)
            except StopIteration:
                ended = True
                break
            if path is not None:
                paths.append(path)
        self._walk = None if ended else walk
        rejected, self._rejected = self._rejected, []
        whole = begins and ended and not self._cut
        if not whole:
            rejected.append(
                Rejected(
                    "too_many_entries",
                    f"{self._folder} holds more than {self._most} entries, or a folder in it more"
                    f" than {self._most_below}; not all are looked at at once",
                )
            )
        return Part(sorted(paths), rejected, whole)

    def _round(self) -> Iterator[str | None]:
        """Every entry once: its path if it is such a file, None of others."""
        before = set(self._halfway)
        for entry in self._listed(self._folder):
            yield self._fits(entry)
            if entry.is_dir(follow_symlinks=False):
                folder = Path(entry.path)
                before.discard(folder)
                yield from self._below(folder)
        for gone in before:
            del self._halfway[gone]

    def _below(self, folder: Path) -> Iterator[str | None]:
        entries = self._halfway.pop(folder, None)
        if entries is None:
            entries = self._listed(folder)
        else:
            self._cut = True  # what it began with was of an earlier look
        for _ in range(self._most_below):
            entry = next(entries, None)
            if entry is None:
                return
            yield self._fits(entry)
        self._cut = True
        if len(self._halfway) < MAX_HALFWAY:
            self._halfway[folder] = entries

    def _listed(self, folder: Path) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                yield from entries
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._rejected.append(opening_failed(folder, error))

    def _fits(self, entry: os.DirEntry[str]) -> str | None:
        named = entry.name.startswith(self._prefix) and entry.name.endswith(self._suffix)
        return entry.path if named else None
