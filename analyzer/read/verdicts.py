"""Verdicts of past runs: the archives beside an archive, read with bounds and not trusted."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lockstep.analyzer.read.archive.files import MOST_BYTES, Files
from lockstep.analyzer.shapes.run import LoadError
from lockstep.collector.contract import archive

MOST_ARCHIVES = 1000
"""The newest are read; a few milliseconds each."""
NEEDED = (archive.RUN_FILE, archive.VERDICT_FILE)
MOST_RANKS = 1_000_000
BROKEN = (
    OSError, ValueError, KeyError, TypeError, AttributeError, LoadError, pa.ArrowException,
)  # fmt: skip
"""What an archive that is torn, or is none, ends in."""


@dataclass(frozen=True, slots=True)
class PastCulprit:
    """Whom a verdict named; `stopped` = it stopped the run instead of slowing it."""

    node: str
    uuid: str | None
    cause: str
    stopped: bool


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that took place and was judged.

    Attributes:
        run: Its id.
        ended: Unix seconds.
        emulated: Whether its nodes were emulated: their names are the same on every machine.
        nodes: Who took part.
        uuids: Their GPUs.
        culprits: Whom its verdict named, or `lockstep watch` when the archive was written.
    """

    run: str
    ended: float
    emulated: bool
    nodes: frozenset[str]
    uuids: frozenset[str]
    culprits: tuple[PastCulprit, ...]


@dataclass(frozen=True, slots=True)
class Past:
    """Past runs, newest first; `skipped` archives could not be read, `left_out` were too many."""

    runs: tuple[PastRun, ...]
    skipped: int = 0
    left_out: int = 0


def siblings(path: Path) -> Past:
    """The judged runs whose archives stand in the same folder as the archive `path`.

    Of a finding's archive, `OUT/<run>/<finding>`, these are the findings of all other runs.
    Folders without run.json or verdict.json are none. Symbolic links are not followed.
    """
    own = path.resolve()
    beside = [own.parent]
    if os.path.isfile(own / archive.FINDING_FILE):
        beside = [Path(folder) for _, folder in _folders(own.parent.parent)]
    folders = [found for place in beside for found in _folders(place) if found[1] != str(own)]
    folders.sort(reverse=True)
    runs: dict[str, PastRun] = {}
    skipped = 0
    mine = _name(own)
    for _, folder in folders[:MOST_ARCHIVES]:
        here = Path(folder)
        # Not Path.is_file: that raises where a folder of somebody else may not be looked into.
        if not all(os.path.isfile(here / name) for name in NEEDED):
            continue
        try:
            run = _read(here)
        except BROKEN:
            skipped += 1
            continue
        if run.run != mine:
            runs.setdefault(run.run, run)
    return Past(tuple(runs.values()), skipped, max(len(folders) - MOST_ARCHIVES, 0))


def _folders(folder: Path) -> list[tuple[float, str]]:
    """When each folder in `folder` was last changed, and its path; none where nobody may look."""
    try:
        with os.scandir(folder) as entries:
            return [
                (entry.stat(follow_symlinks=False).st_mtime, entry.path)
                for entry in entries
                if entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []


def _name(path: Path) -> str | None:
    try:
        return str(_object(path, archive.RUN_FILE)["run"])
    except BROKEN:
        return None


def _read(folder: Path) -> PastRun:
    meta, verdict = (_object(folder, name) for name in (archive.RUN_FILE, archive.VERDICT_FILE))
    nodes, uuids = _ranks(folder / archive.RANKS_FILE)
    culprits = tuple(
        PastCulprit(
            _text(each["node"]),
            None if each["uuid"] is None else _text(each["uuid"]),
            _text(each["cause"]),
            # Without a hang nobody stopped: one named from hardware alone has no slowdown either.
            each["slowdown"] is None and verdict.get("hang") is not None,
        )
        for each in (*verdict["culprits"], *_only_told(verdict))
        if each["node"] is not None
    )
    return PastRun(
        _text(meta["run"]),
        datetime.fromisoformat(meta.get("ended") or meta["started"]).timestamp(),
        meta.get("emulated_nodes") is True,
        nodes,
        uuids,
        culprits,
    )


def _only_told(verdict: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Who was a culprit when the archive was written, and is none by what the archive holds."""
    return [each for each in verdict.get("history") or () if not each["place_agrees"]]


def _ranks(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    _bounded(path)
    with pq.ParquetFile(path) as file:
        if file.metadata.num_rows > MOST_RANKS:
            raise ValueError(f"{path} has {file.metadata.num_rows} ranks")
        table = file.read(columns=["node", "uuid"])
    nodes, uuids = (
        frozenset(_text(each) for each in table[name].unique().to_pylist() if each is not None)
        for name in ("node", "uuid")
    )
    if not nodes:
        raise ValueError(f"{path} names no node")
    return nodes, uuids


def _object(folder: Path, name: str) -> Mapping[str, Any]:
    if (folder / name).is_symlink():
        raise ValueError(f"{folder / name} is a link")
    found = Files(folder).document(name)
    if found is None:
        raise FileNotFoundError(folder / name)
    return found


def _bounded(path: Path) -> None:
    if path.is_symlink() or path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} is a link or larger than {MOST_BYTES} bytes")


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 253:  # a host name's length, RFC 1035
        raise ValueError(f"{str(value)[:40]!r} is no name")
    return value
