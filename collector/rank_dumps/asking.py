"""Asks the ranks of a run on this node for their flight-recorder dumps, and reads them."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.clock import Clock
from collector.contract.flight_recorder import dump_name, request_name
from collector.files import environment
from collector.reading import SourceError
from collector.sources.flight_recorder import (
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
    """All ranks of a run on this node, by rank; and who is missing from which collective.

    Attributes:
        since: When they were asked, in Unix nanoseconds of the file system.
    """

    ranks: tuple[Answer, ...]
    missing: tuple[Missing, ...]
    since: int = 0


def ranks_below(folder: Path, proc: Path, clock: Clock) -> list[Rank]:
    """Every rank with a ring in the folder or up to two levels below, as local runs have them."""
    folders = [folder, *(each for each in _entries(folder) if each.is_dir())]
    found = {rank.path: rank for each in folders for rank in scan(each, proc, clock)[0]}
    return [found[path] for path in sorted(found)]


def of_newest_attempt(ranks: Sequence[Rank]) -> list[Rank]:
    """Those of one run's ranks that are of its newest attempt; rings of killed pods stay behind."""
    newest = max((one.header.identity.attempt for one in ranks), default=0)
    return [one for one in ranks if one.header.identity.attempt == newest]


def request_dumps(
    ranks: Sequence[Rank], proc: Path, clock: Clock, seconds: float, asked: int | None = None
) -> Answers:
    """Ask these ranks of one run, and wait until all have answered, at most so long.

    Args:
        ranks: Of one run on this node.
        proc: The process table.
        clock: For waiting.
        seconds: How long at most.
        asked: `since` of earlier answers: nobody is asked again, what was written since is read.
    """
    requests = {rank.path.parent / request_name(rank.header.identity.run) for rank in ranks}
    whys: dict[int, str] = {}
    places: dict[int, list[Path]] = {}
    made: list[Path] = []
    try:
        since = round(clock.wall() * 1e9) if asked is None else asked
        if asked is None:
            # First: a rank may answer its pipe before the next one is asked.
            since = min([since, *_requested(requests, made, ranks, whys)])
        for rank in ranks:
            run, number = rank.key
            places[number] = [rank.path.parent / dump_name(run, number)]
            if rank.pid is not None:
                places[number] += _torch(proc, rank.pid, number, whys, ask=asked is None)
        dumps, found = _read(ranks, places, since, whys, clock, seconds)
    finally:
        for path in made:
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
    return Answers(answers, tuple(missing(dumps.values(), coordinates, coordinates)), since)


def _requested(
    paths: Iterable[Path], made: list[Path], ranks: Sequence[Rank], whys: dict[int, str]
) -> Iterator[int]:
    """The time of each request; ranks whose folder may not be written to are told of in `whys`.

    In a cluster the collector may only read there, and torch's pipe is what is left.
    """
    for path in paths:
        try:
            yield _request(path)
            made.append(path)
        except OSError as error:
            why = f"{path.parent} cannot be written to: {error.strerror}"
            whys |= {rank.key[1]: why for rank in ranks if rank.path.parent == path.parent}


def _torch(proc: Path, pid: int, rank: int, whys: dict[int, str], *, ask: bool) -> list[Path]:
    """Through the pipe of NCCL's process group, if the rank has one; where it puts its dumps."""
    try:
        variables = environment(proc, pid)
    except SourceError as error:
        whys.setdefault(rank, str(error))
        return []
    if ask and variables.get(PIPE_VARIABLE):
        try:
            request_dump(variables[PIPE_VARIABLE], rank)
            whys.pop(rank, None)
        except SourceError as error:
            whys.setdefault(rank, str(error))
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
