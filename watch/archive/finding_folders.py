"""finding.json of the archives on disk: `OUT/<run>/<moment>-<culprit>/finding.json`."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lockstep.analyzer.findings.finding_lifecycle import folder_of_run
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.whole_file import write_whole

FINDING_FILE = "finding.json"
MOST_FINDINGS = 200
"""Of a run, the newest, that are looked through for one alert."""
MAX_BYTES = 4 << 20
_CHANGING = threading.Lock()
"""Alerts are noted, and findings closed, by different threads."""


def findings(out: Path, runs: Sequence[str]) -> list[tuple[Path, Mapping[str, Any]]]:
    """Folder and finding of each archive of these runs; what is torn or not whole is left out."""
    found = []
    for run in runs:
        place = out / folder_of_run(run)
        try:
            names = sorted((each.name for each in place.iterdir()), reverse=True)
        except OSError:
            continue  # of this run nothing was found yet
        for name in [each for each in names if not each.startswith(".")][:MOST_FINDINGS]:
            folder = place / name
            if (tree := read(folder)) is not None:
                found.append((folder, tree))
    return found


def newest(out: Path) -> list[Path]:
    """The archives of all runs, the newest first; none where nobody may look."""
    # Names begin with a full stop while an archive is under way.
    found = [each for each in out.glob("*/*/") if not each.name.startswith(".")]
    return sorted(found, key=lambda each: each.name, reverse=True)


def read(folder: Path) -> Mapping[str, Any] | None:
    """What finding.json of an archive says; None where there is none that is whole."""
    try:
        tree = bounded_json.read(folder / FINDING_FILE, limit=MAX_BYTES)
    except (OSError, ValueError):
        return None
    if not isinstance(tree, dict) or not isinstance(tree.get("alerts"), list):
        return None
    return tree


def update(folder: Path, change: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]) -> bool:
    """Change finding.json; whoever else changes it in this process waits until it is written.

    Args:
        folder: Of the archive.
        change: What it says -> what it is to say; None = it stays.

    Returns:
        Whether it was changed; False also where there is none.

    Raises:
        OSError: The folder cannot be written.
    """
    with _CHANGING:
        before = read(folder)
        after = None if before is None else change(before)
        if after is not None:
            write(folder, after)
        return after is not None


def replace(folder: Path, new: Path) -> None:
    """Put an archive in the place of another; alerts, and files that it lacks, are kept.

    Args:
        folder: Of the archive that was.
        new: Of the one that takes its name, beside it; what was has this name then.

    Raises:
        OSError: The folders cannot be written.
    """
    with _CHANGING:
        before, after = read(folder), read(new)
        if before is not None and after is not None:
            write(new, {**after, "alerts": before["alerts"]})
        for entry in folder.iterdir():
            if not (new / entry.name).exists():
                entry.rename(new / entry.name)
        old = new.with_name(f"{new.name}.old")
        folder.rename(old)
        new.rename(folder)
        old.rename(new)


def write(folder: Path, finding: Mapping[str, Any]) -> None:
    """Write finding.json.

    Raises:
        OSError: The folder cannot be written.
    """
    text = json.dumps(finding, indent=2, allow_nan=False)
    write_whole(folder / FINDING_FILE, text + "\n")
