"""Which archives lie in a folder: one or two levels deep, the newest, each looked at once."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lockstep.analyzer.read.verdicts import MOST_ARCHIVES
from lockstep.collector.contract import archive
from lockstep.dashboard.shapes import RunRow
from lockstep.dashboard.sources.archive.row import unreadable
from lockstep.dashboard.sources.archive.source import ArchiveSource
from lockstep.dashboard.trouble import Kind, TroubleError

MOST_FOLDERS = 20_000
"""Looked through; a folder with more is not one of archives."""
SEEN = (archive.RUN_FILE, archive.VERDICT_FILE, archive.FINDING_FILE, archive.REPORT_STEM + ".html")
State = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One archive.

    Attributes:
        source: It.
        folder: Where it lies.
        row: Its run; of one that cannot be read, why in its sentence.
        readable: Whether it can.
        finding: Whether `watch` made it for a finding.
        trouble: Why it cannot be read, and what would be right; None = it can.
    """

    source: ArchiveSource
    folder: Path
    row: RunRow
    readable: bool
    finding: bool
    trouble: TroubleError | None = None


class Index:
    """Archives below a folder."""

    def __init__(self, root: Path, now: Callable[[], float]) -> None:
        self._root, self._now = root, now
        self._known: dict[Path, tuple[State, Entry]] = {}
        self._lock = threading.Lock()
        self.left_out = 0

    def entries(self) -> tuple[Entry, ...]:
        """The newest first by their start; what has not changed is not read again.

        Raises:
            TroubleError: The folder is not there, or may not be read.
        """
        folders = sorted(
            ((self._state(folder), folder) for folder in self._folders()), reverse=True
        )
        with self._lock:
            self.left_out = max(len(folders) - MOST_ARCHIVES, 0)
            kept = folders[:MOST_ARCHIVES]
            known = {folder: self._entry(folder, state) for state, folder in kept}
            self._known = {folder: (state, known[folder]) for state, folder in kept}
        return tuple(sorted(known.values(), key=lambda each: -each.row.span.start))

    def _entry(self, folder: Path, state: State) -> Entry:
        before = self._known.get(folder)
        if before is not None and before[0] == state and before[1].row.state != "running":
            return before[1]
        source = before[1].source if before is not None else ArchiveSource(folder, self._now)
        finding = (folder / archive.FINDING_FILE).is_file()
        try:
            return Entry(source, folder, source.runs()[0], True, finding)
        except TroubleError as trouble:
            row = unreadable(folder, trouble, state[0] / 1e9)
            return Entry(source, folder, row, False, finding, trouble)

    def _folders(self) -> list[Path]:
        try:
            first = self._below(self._root)
        except FileNotFoundError:
            raise TroubleError(
                Kind.NO_SOURCE, f"{self._root} is not there any more, or never was.",
                "Give a folder of run archives, as runs.",
            ) from None  # fmt: skip
        except PermissionError:
            raise TroubleError(
                Kind.REFUSED, f"{self._root} may not be read by this user.",
                "Let the user of the dashboard read it.",
            ) from None  # fmt: skip
        except OSError as error:
            raise TroubleError(
                Kind.NO_SOURCE, f"{self._root} cannot be looked through: {error.strerror}.",
                "Give a folder of run archives, as runs.",
            ) from None  # fmt: skip
        folders: list[Path] = []
        for folder in first:
            if _is_archive(folder):
                folders.append(folder)
                continue
            try:
                folders += [each for each in self._below(folder) if _is_archive(each)]
            except OSError:  # one that may not be looked into does not take the others
                continue
        return folders

    def _below(self, folder: Path) -> list[Path]:
        """Folders in it; no hidden ones (watch is still writing those), no links."""
        with os.scandir(folder) as entries:
            return [
                Path(each.path) for each, _ in zip(entries, range(MOST_FOLDERS), strict=False)
                if not each.name.startswith(".") and each.is_dir(follow_symlinks=False)
            ]  # fmt: skip

    def _state(self, folder: Path) -> State:
        return tuple(_changed(folder / name) for name in SEEN)


def _is_archive(folder: Path) -> bool:
    try:
        return (folder / archive.RUN_FILE).exists()
    except OSError:
        return False


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
