"""Which archive is meant by a folder: itself, or of the archives in it the newest that ended."""

import os
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import RUN_FILE
from lockstep.collector.contract.visible import visible_line
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail, note

MOST_ARCHIVES = 1000
"""The last changed of a folder are looked at; a millisecond each."""


def archive_in(folder: Path, command: str) -> Path:
    """The archive that is meant; one that was chosen is said on stderr, with how to name another.

    Args:
        folder: An archive, or a folder of archives; of anything else its reader says what is wrong.
        command: Of `lockstep`, for that sentence.

    Raises:
        CommandError: 65, there are archives in the folder, and none has ended.
    """
    if _is_archive(folder):
        return folder
    archives = archives_in(folder)
    if not archives:
        return folder
    newest = last_ended(archives)
    if newest is None:
        fail(
            ExitCode.BAD_INPUT,
            f"{folder} holds {_counted(archives)}, and no run in it has ended; name one: lockstep"
            f" {command} {shlex.quote(str(archives[0]))}",
        )
    others = [archive for archive in archives if archive != newest]
    another = f"; another: lockstep {command} {shlex.quote(str(others[0]))}" if others else ""
    note(visible_line(f"lockstep: {described(folder, archives, newest)}{another}"))
    return newest


def described(folder: Path, archives: Sequence[Path], newest: Path) -> str:
    """Which one it is, as `runs holds 3 archives; the last that ended is gpt-... (2026-...)`."""
    when = _end(newest)
    moment = "" if when is None else f" ({when:%Y-%m-%d %H:%M:%S} UTC)"
    return f"{folder} holds {_counted(archives)}; the last that ended is {newest.name}{moment}"


def last_ended(archives: Sequence[Path]) -> Path | None:
    """The archive whose run ended last; None where none has ended."""
    ended = [(when, archive) for archive in archives if (when := _end(archive)) is not None]
    return max(ended)[1] if ended else None


def archives_in(folder: Path) -> list[Path]:
    """The archives right below a folder, the last changed first; no hidden ones, no links."""
    try:
        with os.scandir(folder) as entries:
            folders = [
                (entry.stat(follow_symlinks=False).st_mtime, entry.path)
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []
    return list(_archives(sorted(folders, reverse=True)))


def _archives(folders: list[tuple[float, str]]) -> Iterator[Path]:
    for _, path in folders[:MOST_ARCHIVES]:
        if _is_archive(Path(path)):
            yield Path(path)


def _is_archive(folder: Path) -> bool:
    # Not Path.exists: that raises where a folder of somebody else may not be looked into.
    return os.path.lexists(folder / RUN_FILE)


def _end(archive: Path) -> datetime | None:
    """When the run ended, UTC; None where its run.json says no such thing."""
    try:
        tree = bounded_json.read(archive / RUN_FILE)
        when = datetime.fromisoformat(tree["ended"])
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def _counted(archives: Sequence[Path]) -> str:
    return f"{len(archives)} archives" if len(archives) > 1 else "one archive"
