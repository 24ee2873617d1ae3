"""Flight-recorder dumps of a folder that somebody sends, and what stands beside them."""

import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from lockstep.analyzer.hangs.dumps import Dumps, Fact, FactKind
from lockstep.analyzer.hangs.flight_recorder import TreeError, parse
from lockstep.analyzer.hangs.jobs import NamedDump, jobs
from lockstep.analyzer.hangs.stacks import facts as stack_facts
from lockstep.collector.clock import Clock
from lockstep.collector.config import ConfigError, load
from lockstep.collector.contract import bounded_json, stacks
from lockstep.collector.contract.flight_recorder import EVIDENCE_FILE
from lockstep.collector.contract.stacks import FILE, Stacks, as_text
from lockstep.collector.files.opening import opened
from lockstep.collector.formats.flight_recorder.dump import MAX_BYTES, trees
from lockstep.collector.on_demand.dumps import Answers
from lockstep.collector.on_demand.rank_facts import SOURCES, Heard, facts, heard
from lockstep.collector.readings.source import SourceError
from lockstep.collector.registry import feeds
from lockstep.collector.sampler.sampler import Sampler

MAX_FILES = 16_384
MAX_LEVELS = 3
"""Folders within each other: one of each node, one of each job."""
AT_ONCE = 256
"""Dumps that are in memory together."""
MOST_REJECTED = 20
MAX_EVIDENCE_BYTES = 16 << 20
MAX_FACTS = 100_000

_RANK = re.compile(r"(.*?)(\d{1,7})(?:\.(?:json|pickle|pkl|bin))?", re.ASCII | re.DOTALL)


class NoDumpsError(Exception):
    """The folder cannot be judged; the text says why and what would be right."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file that may be a dump, by its path below the folder."""

    path: Path
    name: str
    rank: int


def read_folder(folder: Path) -> list[tuple[str, Dumps]]:
    """The jobs of which dumps lie there, the newest first, each with its name.

    Raises:
        NoDumpsError: There is no dump in it that can be read.
        OSError: It cannot be listed.
    """
    rejected: list[str] = []
    files, beside = _files(folder, rejected)
    # Where nobody wrote a dump, ranks may have been asked for their stacks.
    with_dumps = {file.path.parent for file in files} or {folder}
    moments, facts = _evidence(folder, beside, with_dumps, rejected)
    stood = _stacks(folder, beside, with_dumps, rejected)
    found: list[NamedDump] = []
    for file, tree, written in _trees(folder, files, rejected):
        try:
            trace = parse(tree, file.rank, moments.get((file.path.parent, file.rank), written))
        except TreeError as error:
            rejected.append(f"{file.path.relative_to(folder)}: {error}")
            continue
        found.append(NamedDump(file.name, trace))
    if not found and (alone := stood.get(".")):
        told = tuple(rejected[:MOST_REJECTED])
        world = tuple(sorted({one.rank for one in alone}))
        return [("", Dumps({}, world, tuple(facts.get(".", ())), told, tuple(alone)))]
    if not found:
        why = (
            rejected[0]
            if rejected
            else "files are looked for whose names end in the rank, as dump_12"
        )
        raise NoDumpsError(f"{folder} holds no flight-recorder dump that can be read: {why}")
    told = tuple(rejected[:MOST_REJECTED])
    if len(rejected) > MOST_REJECTED:
        told = (*told, f"{len(rejected) - MOST_REJECTED} more")
    return [(name, replace(dumps, rejected=told)) for name, dumps in jobs(found, facts, stood)]


def _files(folder: Path, rejected: list[str]) -> tuple[list[_File], list[Path]]:
    """Files named by a rank, and those with evidence or stacks, there and a few levels below."""
    files: list[_File] = []
    beside: list[Path] = []
    level = [folder]
    for _ in range(MAX_LEVELS + 1):  # the folder itself, and those below it
        below: list[Path] = []
        for each in level:
            for entry in _listed(folder, each, rejected):
                if entry.is_dir(follow_symlinks=False):
                    below.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    path = Path(entry.path).relative_to(folder)
                    rejected.append(f"{path} is a link or no regular file, and is not read")
                elif entry.name in (EVIDENCE_FILE, stacks.FILE):
                    beside.append(Path(entry.path))
                elif (match := _RANK.fullmatch(entry.name)) is not None:
                    path = Path(entry.path)
                    name = str(path.parent.relative_to(folder) / (match[1] or "dump"))
                    files.append(_File(path, name, int(match[2])))
        level = below
        if len(files) > MAX_FILES:
            rejected.append(f"over {MAX_FILES} files; the rest is not read")
            break
    if level:
        path = level[0].relative_to(folder)
        rejected.append(f"{path} is more than {MAX_LEVELS} folders deep, and is not looked at")
    return files[:MAX_FILES], beside[:MAX_FILES]


def _listed(folder: Path, each: Path, rejected: list[str]) -> list[os.DirEntry[str]]:
    """What is in one folder, by name; a folder below that cannot be listed is told."""
    try:
        with os.scandir(each) as entries:
            found = list(islice(entries, MAX_FILES))
            cut = next(entries, None) is not None
    except OSError as error:
        if each == folder:
            raise
        rejected.append(f"{each.relative_to(folder)} cannot be listed: {error.strerror}")
        return []
    if cut:
        path = each.relative_to(folder)
        rejected.append(f"{path} holds over {MAX_FILES} files; the rest is not looked at")
    return sorted(found, key=lambda entry: entry.name)


def _trees(
    folder: Path, files: Sequence[_File], rejected: list[str]
) -> Iterator[tuple[_File, Any, float]]:
    """Each dump's tree, and when the file was written."""
    for start in range(0, len(files), AT_ONCE):
        read: list[tuple[_File, float]] = []
        contents: list[bytes] = []
        for file in files[start : start + AT_ONCE]:
            try:
                with opened(file.path) as descriptor:
                    written = os.fstat(descriptor).st_mtime_ns / 1e9
                    with os.fdopen(os.dup(descriptor), "rb") as stream:
                        contents.append(stream.read(MAX_BYTES + 1))
                read.append((file, written))
            except SourceError as error:
                rejected.append(str(error))
        for (file, written), tree in zip(read, trees(contents), strict=True):
            if isinstance(tree, SourceError):
                rejected.append(f"{file.path.relative_to(folder)}: {tree}")
            else:
                yield file, tree, written


def _evidence(
    folder: Path, paths: Sequence[Path], with_dumps: Set[Path], rejected: list[str]
) -> tuple[dict[tuple[Path, int], float], dict[str, list[Fact]]]:
    """When the dumps of each folder were written, and what else is known of its ranks.

    A file that does not hold together, or that lies beside no dump, is told.
    """
    moments: dict[tuple[Path, int], float] = {}
    facts: dict[str, list[Fact]] = {}
    for path in _near(folder, paths, EVIDENCE_FILE, with_dumps, rejected):
        try:
            tree = bounded_json.read(path, limit=MAX_EVIDENCE_BYTES)
            for rank, moment in dict(tree.get("written") or {}).items():
                moments[path.parent, int(rank)] = float(moment)
            facts[str(path.parent.relative_to(folder))] = [
                Fact(int(one["rank"]), FactKind(one["kind"]), str(one["value"]))
                for one in list(tree.get("facts") or [])[:MAX_FACTS]
            ]
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            why = f"{type(error).__name__}: {error}"[:160]
            rejected.append(f"{path.relative_to(folder)} does not hold together: {why}")
    return moments, facts


def _stacks(
    folder: Path, paths: Sequence[Path], with_dumps: Set[Path], rejected: list[str]
) -> dict[str, list[stacks.Stacks]]:
    """Where ranks stood, by folder; a file that does not hold together is told."""
    found: dict[str, list[stacks.Stacks]] = {}
    for path in _near(folder, paths, stacks.FILE, with_dumps, rejected):
        try:
            found[str(path.parent.relative_to(folder))] = stacks.read(path)
        except (OSError, ValueError) as error:
            rejected.append(f"{path.relative_to(folder)}: {error}"[:160])
    return found


def _near(
    folder: Path, paths: Sequence[Path], name: str, with_dumps: Set[Path], rejected: list[str]
) -> Iterator[Path]:
    """Those of this name that lie beside dumps; the others are told."""
    for path in paths:
        if path.name == name and path.parent in with_dumps:
            yield path
        elif path.name == name:
            rejected.append(f"{path.relative_to(folder)} lies beside no dump, and is not read")


# Stacks of ranks are kept beside their dumps.


def save_stacks(folder: Path, evidence: dict[str, Any], stacks: Sequence[Stacks]) -> None:
    """Write them into a folder of dumps, and what they say into its evidence.

    Args:
        evidence: What stands in EVIDENCE_FILE there.

    Raises:
        OSError: They cannot be written.
    """
    told = [
        {"rank": one.rank, "kind": one.kind.value, "value": one.value}
        for one in stack_facts(stacks)
    ]
    tree = {**evidence, "facts": [*evidence["facts"], *told]}
    (folder / FILE).write_text(as_text(sorted(stacks, key=lambda one: one.rank)))
    (folder / EVIDENCE_FILE).write_text(json.dumps(tree, indent=1))


# Dumps of a run on this machine are kept with the readings of its sensors.

_DUMP = re.compile(r"dump_\d+", re.ASCII)


def sensed(environment: Mapping[str, str], folder: Path, clock: Clock) -> Heard:
    """One reading of the sensors that a collector of this machine would have; empty if none can.

    Args:
        environment: As the collector's.
        folder: Of the rings.
        clock: For them.
    """
    try:
        flags = {"lockstep_dir": str(folder), "sources": ",".join(SOURCES)}
        config = load(None, environment, flags)
        sampler = Sampler(feeds(config, clock), clock, config.ttl)
    except ConfigError:
        return Heard()
    sampler.start()
    try:
        sampler.wait_ready()
        return heard(sampler)
    finally:
        sampler.stop()


def save(answers: Answers, heard: Heard, folder: Path, proc: Path, clock: Clock) -> dict[str, Any]:
    """Write the dumps into a folder that may be sent, with what else is known of the ranks.

    What an earlier call left there goes: it would be read as of now.

    Returns:
        The evidence, as it was written.

    Raises:
        OSError: It cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name == stacks.FILE or _DUMP.fullmatch(old.name):
            old.unlink()
    written = {}
    for one in answers.ranks:
        number = one.rank.key[1]
        if one.dump is not None:
            copy = folder / f"dump_{number}"
            copy.write_bytes(zlib.decompress(one.packed))
            os.utime(copy, (one.dump.written_at,) * 2)
            written[str(number)] = one.dump.written_at
    rows = facts([one.rank for one in answers.ranks], heard, proc, clock)
    tree = {"schema_version": 1, "written": written, "facts": rows}
    (folder / EVIDENCE_FILE).write_text(json.dumps(tree, indent=1))
    return tree
