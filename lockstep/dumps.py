"""Asks the ranks of a run on this machine for their flight-recorder dumps, and reads them."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.clock import Clock
from collector.contract.flight_recorder import EVIDENCE_FILE, dump_name, request_name
from collector.files import environment, read_bytes
from collector.reading import SourceError
from collector.sources.flight_recorder import (
    MAX_BYTES,
    PIPE_VARIABLE,
    Dump,
    Missing,
    missing,
    named_prefix,
    old_prefix,
    read_dump,
    request_dump,
)
from collector.sources.rank_ring import Rank, scan

POLL_SECONDS = 0.05
FROZEN_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One rank and its dump, or why there is none; `path` is where the dump lies."""

    rank: Rank
    dump: Dump | None
    why: str = ""
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """All ranks of a run on this machine, by rank; and who is missing from which collective."""

    ranks: tuple[Answer, ...]
    missing: tuple[Missing, ...]


def ranks_below(folder: Path, proc: Path, clock: Clock) -> list[Rank]:
    """Every rank with a ring in the folder or up to two levels below, as local runs have them."""
    folders = [folder, *(each for each in _entries(folder) if each.is_dir())]
    found = {rank.path: rank for each in folders for rank in scan(each, proc, clock)[0]}
    return [found[path] for path in sorted(found)]


def request_dumps(ranks: Sequence[Rank], proc: Path, clock: Clock, seconds: float) -> Answers:
    """Ask these ranks of one run, and wait until all have answered, at most so long."""
    requests = {rank.path.parent / request_name(rank.header.identity.run) for rank in ranks}
    whys: dict[int, str] = {}
    places: dict[int, list[Path]] = {}
    try:
        # First: a rank may answer its pipe before the next one is asked.
        since = min(_request(path) for path in requests)
        for rank in ranks:
            run, number = rank.key
            places[number] = [rank.path.parent / dump_name(run, number)]
            if rank.pid is not None:
                places[number] += _ask_torch(proc, rank.pid, number, whys)
        dumps, found = _read(ranks, places, since, whys, clock, seconds)
    finally:
        for path in requests:
            path.unlink(missing_ok=True)
    folders = {rank.path.parent for rank in ranks}
    now = {rank.path: rank for each in folders for rank in scan(each, proc, clock)[0]}
    answers = tuple(
        Answer(
            now.get(rank.path, rank),
            dumps.get(rank.key[1]),
            _why(now.get(rank.path, rank), whys, clock),
            found.get(rank.key[1]),
        )
        for rank in ranks
    )
    who = [rank.header.identity for rank in ranks]
    coordinates = {one.rank: (one.dp, one.pp, one.tp) for one in who}
    return Answers(answers, tuple(missing(dumps.values(), coordinates, coordinates)))


def _ask_torch(proc: Path, pid: int, rank: int, whys: dict[int, str]) -> list[Path]:
    """Through the pipe of NCCL's process group, if the rank has one; where it puts its dumps."""
    try:
        variables = environment(proc, pid)
    except SourceError as error:
        whys[rank] = str(error)
        return []
    if variables.get(PIPE_VARIABLE):
        try:
            request_dump(variables[PIPE_VARIABLE], rank)
        except SourceError as error:
            whys[rank] = str(error)
    prefixes = filter(None, (named_prefix(variables), old_prefix()))
    return [Path(f"{prefix}{rank}") for prefix in prefixes]


def _request(path: Path) -> int:
    """Touch the request; its time in nanoseconds."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        os.utime(descriptor)
        return os.fstat(descriptor).st_mtime_ns
    finally:
        os.close(descriptor)


def _read(
    ranks: Sequence[Rank],
    places: Mapping[int, list[Path]],
    since: int,
    whys: dict[int, str],
    clock: Clock,
    seconds: float,
) -> tuple[dict[int, Dump], dict[int, Path]]:
    """The dump of each rank written since, and its path, once all that live have one or time is up.

    torch writes its own dumps in place: one that is broken now may be whole a moment later.
    """
    until = clock.monotonic() + seconds
    found: dict[int, Dump] = {}
    paths: dict[int, Path] = {}
    while True:
        for rank in ranks:
            run, number = rank.key
            for path in places[number]:
                if number not in found and _written(path) >= since:
                    try:
                        found[number], paths[number] = read_dump(path, run, number), path
                    except SourceError as error:
                        whys[number] = f"{path}: {error}"
        if all(rank.key[1] in found for rank in ranks if rank.up) or clock.monotonic() >= until:
            return found, paths
        clock.sleep(POLL_SECONDS)


def _written(path: Path) -> int:
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return -1


def save(answers: Answers, folder: Path, proc: Path, clock: Clock) -> dict[str, Any]:
    """Write the dumps into a folder that may be sent, with what else is known of the ranks.

    Returns:
        The evidence, as it was written.

    Raises:
        OSError: It cannot be written.
        SourceError: A dump cannot be read any more.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written, facts = {}, []
    for one in answers.ranks:
        number = one.rank.key[1]
        if one.dump is not None and one.path is not None:
            copy = folder / f"dump_{number}"
            copy.write_bytes(read_bytes(one.path, MAX_BYTES))
            os.utime(copy, (one.dump.written_at,) * 2)
            written[str(number)] = one.dump.written_at
        told = [("process-state", "gone" if one.rank.pid is None else _state(proc, one.rank.pid))]
        if one.rank.up:
            silence = clock.monotonic() - one.rank.header.heartbeat_ns / 1e9
            told.append(("heartbeat-age", f"{max(0.0, silence):.1f}"))
        facts += [{"rank": number, "kind": kind, "value": value} for kind, value in told if value]
    tree = {"schema_version": 1, "written": written, "facts": facts}
    (folder / EVIDENCE_FILE).write_text(json.dumps(tree, indent=1))
    return tree


def _state(proc: Path, pid: int) -> str:
    """The letter of proc_pid_stat(5); "" = not told."""
    try:
        text = read_bytes(proc / str(pid) / "stat", 4096)
    except SourceError as error:
        return "gone" if error.reason == "missing" else ""
    fields = text.rpartition(b")")[2].split()
    return fields[0].decode("ascii", "replace") if fields else ""


def _why(rank: Rank, whys: Mapping[int, str], clock: Clock) -> str:
    """Why a rank gave no dump, if it gave none."""
    if not rank.up:
        return "its process is gone"
    silence = clock.monotonic() - rank.header.heartbeat_ns / 1e9
    if silence > FROZEN_SECONDS:
        return f"frozen: its helper thread has not run for {silence:.0f} s"
    return whys.get(rank.key[1], "it did not answer; its log says why")


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if not each.is_symlink())
    except OSError:
        return []
