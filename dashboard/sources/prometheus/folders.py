"""Archives that `lockstep watch` keeps: `OUT/<run>/<moment>-<culprit>`, read only and bounded."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzer.watch.finding_lifecycle import folder_of_run
from collector.contract import bounded_json

MOST_FINDINGS = 200
"""Of a run, the newest: their folders begin with the moment."""
MOST_RUNS = 500
MOST_BYTES = 16 << 20
FINDING, VERDICT = "finding.json", "verdict.json"


@dataclass(frozen=True, slots=True)
class Kept:
    """A finding's archive.

    Attributes:
        name: `<run>/<moment>-<culprit>`.
        folder: Where it is.
        told: finding.json, not trusted.
    """

    name: str
    folder: Path
    told: Mapping[str, Any]


def kept(findings: Path | None, run: str = "") -> tuple[Kept, ...]:
    """The findings that have an archive, newest first; of one run, or of all."""
    if findings is None:
        return ()
    homes = [findings / folder_of_run(run)] if run else _inside(findings)[:MOST_RUNS]
    found = []
    for home in homes:
        for folder in _inside(home)[:MOST_FINDINGS]:
            told = document(folder / FINDING)
            if told is not None and (not run or told.get("run") == run):
                found.append(Kept(f"{home.name}/{folder.name}", folder, told))
    return tuple(sorted(found, key=lambda one: one.folder.name, reverse=True))


def verdict(findings: Path | None, run: str) -> Mapping[str, Any] | None:
    """The newest verdict of a run among its findings."""
    for one in kept(findings, run):
        told = document(one.folder / VERDICT)
        if told is not None and told.get("schema_version") == 1:
            return told
    return None


def document(path: Path) -> Mapping[str, Any] | None:
    """A JSON object; None where there is none that is whole, or it is too large."""
    try:
        told = bounded_json.read(path, limit=MOST_BYTES)
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None


def number(value: object) -> float | None:
    """A finite number of a document."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None  # type: ignore[arg-type]


def _inside(folder: Path) -> list[Path]:
    try:
        found = [one for one in folder.iterdir() if one.is_dir() and not one.is_symlink()]
    except OSError:
        return []
    return sorted(found, key=lambda one: one.name, reverse=True)
