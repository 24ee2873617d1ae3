"""Whether something has changed in a folder of archives."""

import os
from pathlib import Path

DEPTH = 3
"""Folders below the first that are looked at: `OUT/<run>/<finding>/samples.parquet`."""
MOST_FOLDERS = 5000


def newest_change(folder: Path) -> tuple[int, int]:
    """The newest change of a folder, or of one in it, in nanoseconds, and how many there are.

    A file that appears, is replaced by a rename or goes changes its folder: archives are written
    so. Files and links are not looked at, folders that cannot be read count as empty.
    """
    newest, count, level = _changed(folder), 1, [str(folder)]
    for _ in range(DEPTH):
        level = [inner for outer in level for inner in _folders(outer)][: MOST_FOLDERS - count]
        count += len(level)
        newest = max([newest, *(_changed(one) for one in level)])
    return newest, count


def _changed(folder: str | Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return [one.path for one in found if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []
