"""Asks the ranks of a run on this node for their flight-recorder dumps, and reads them."""

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.clock import Clock
from lockstep.collector.contract.flight_recorder import dump_name, request_name
from lockstep.collector.files.opening import environment, folder_opened
from lockstep.collector.formats.flight_recorder.dump import Dump
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.nccl.flight_recorder.dump_files import (
    PIPE_VARIABLE,
    check_request,
    named_prefix,
    old_prefix,
)
from lockstep.collector.sources.nccl.flight_recorder.missing import Missing, missing
from lockstep.collector.sources.nccl.flight_recorder.source import dump_and_bytes, request_dump
from lockstep.collector.sources.ranks.owners import Rank
from lockstep.collector.sources.ranks.rings import scan

POLL_SECONDS = 0.05
FROZEN_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One rank and its dump, or why there is none.

    Attributes:
        packed: The bytes that the dump was parsed from, with zlib: its file may be another by now.
    """

    rank: Rank
    dump: Dump | None
    why: str = ""
    packed: bytes = b""


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
    folders = [folder, *(entry for entry in _entries(folder) if entry.is_dir())]
    found = {rank.path: rank for each in folders for rank in scan(each, proc, clock)[0]}
    return [found[path] for path in sorted(found)]


def of_newest_attempt(ranks: Sequence[Rank]) -> list[Rank]:
    """Those of one run's ranks that are of its newest attempt; rings of killed pods stay behind."""
    newest = max((rank.header.identity.attempt for rank in ranks), default=0)
    return [rank for rank in ranks if rank.header.identity.attempt == newest]


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
    with ExitStack() as made:
        since = round(clock.wall() * 1e9) if asked is None else asked
        if asked is None:
            # First: a rank may answer its pipe before the next one is asked.
            since = min([since, *_requested(requests, made, ranks, whys)])
        for rank in ranks:
            run, number = rank.key
            places[number] = [rank.path.parent / dump_name(run, number)]
            if rank.pid is not None:
                places[number] += _torch(proc, rank, rank.pid, whys, ask=asked is None)
        dumps = _read(ranks, places, since, whys, clock, seconds)
    folders = {rank.path.parent for rank in ranks}
    now = {rank.path: rank for folder in folders for rank in scan(folder, proc, clock)[0]}
    answers = tuple(
        Answer(
            now.get(rank.path, rank),
            dumps.get(rank.key[1], (None, b""))[0],
            _why(now.get(rank.path, rank), whys, clock),
            dumps.get(rank.key[1], (None, b""))[1],
        )
        for rank in ranks
    )
    who = [rank.header.identity for rank in ranks]
    coordinates = {info.rank: (info.dp, info.pp, info.tp) for info in who}
    dumped = [dump for dump, _ in dumps.values()]
    return Answers(answers, tuple(missing(dumped, coordinates, coordinates)), since)


def _requested(
    paths: Iterable[Path], made: ExitStack, ranks: Sequence[Rank], whys: dict[int, str]
) -> Iterator[int]:
    """The time of each request; `whys` gets those whose folder may not be written to.

    In a cluster the collector may only read there, and torch's pipe is what is left.
    """
    for path in paths:
        try:
            request = _request(path)
            made.callback(request.withdraw)
            yield request.made_ns
        except (OSError, SourceError) as error:
            said = error.strerror if isinstance(error, OSError) else str(error)
            why = f"{path.parent} cannot be written to: {said}"
            whys |= {rank.key[1]: why for rank in ranks if rank.path.parent == path.parent}


def _torch(proc: Path, one: Rank, pid: int, whys: dict[int, str], *, ask: bool) -> list[Path]:
    """Through the pipe of NCCL's process group, if the rank has one; where it puts its dumps."""
    rank = one.key[1]
    try:
        variables = environment(proc, pid)
    except SourceError as error:
        whys.setdefault(rank, str(error))
        return []
    if ask and variables.get(PIPE_VARIABLE):
        try:
            request_dump(variables[PIPE_VARIABLE], rank, one.user)
            whys.pop(rank, None)
        except SourceError as error:
            whys.setdefault(rank, str(error))
    prefixes = filter(None, (named_prefix(variables), old_prefix()))
    return [Path(f"{prefix}{rank}") for prefix in prefixes]


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that stands.

    Attributes:
        made_ns: Its time, in Unix nanoseconds of the file system.
        folder: Descriptor of the folder; `name` is in it.
        file: Descriptor of the file that we made, so that no other has its number; None = somebody
            else's, who takes it away.
    """

    made_ns: int
    name: str
    folder: int
    file: int | None

    def withdraw(self) -> None:
        """Take the request away, if it is still the file that we made."""
        try:
            if self.file is not None:
                status = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
                if os.path.samestat(status, os.fstat(self.file)):
                    os.unlink(self.name, dir_fd=self.folder)
        except OSError:  # somebody else took it away, or nobody may any more
            pass
        finally:
            for descriptor in (self.folder, *(() if self.file is None else (self.file,))):
                os.close(descriptor)


def _request(path: Path) -> _Request:
    """Make the request; where one stands, it is made anew by its time alone.

    Raises:
        OSError: It cannot be made.
        SourceError: The way to its folder is a link of others, or what stands there is no request.
    """
    with ExitStack() as failed:
        with folder_opened(path.parent) as opened:
            folder = os.dup(opened)
        failed.callback(os.close, folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = os.open(path.name, flags, 0o644, dir_fd=folder)
        except FileExistsError:
            request = _Request(_touched(path, folder), path.name, folder, None)
        else:
            request = _Request(os.fstat(file).st_mtime_ns, path.name, folder, file)
        failed.pop_all()
    return request


def _touched(path: Path, folder: int) -> int:
    """Renew what another one asked: a file of one name, which a link to somebody's file has not.

    Raises:
        OSError: It is of another user.
        SourceError: It is no plain file.
    """
    pinned = os.open(path.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        check_request(path.name, os.fstat(pinned))
        os.utime(f"/proc/self/fd/{pinned}")
        return os.fstat(pinned).st_mtime_ns
    finally:
        os.close(pinned)


def _read(
    ranks: Sequence[Rank],
    places: Mapping[int, list[Path]],
    since: int,
    whys: dict[int, str],
    clock: Clock,
    seconds: float,
) -> dict[int, tuple[Dump, bytes]]:
    """The dump of each rank written since, with its bytes: once all that live have one, or in time.

    torch writes its own dumps in place: one that is broken now may be whole a moment later. Who may
    write beside a rank's ring, or in a temporary folder, is not the rank: its files are of the user
    of its ring.
    """
    until = clock.monotonic() + seconds
    dumps: dict[int, tuple[Dump, bytes]] = {}
    while True:
        for rank in ranks:
            run, number = rank.key
            for path in places[number]:
                if number not in dumps and _written(path) >= since:
                    try:
                        dump, data = dump_and_bytes(path, run, number, rank.user)
                        dumps[number] = dump, zlib.compress(data, 1)
                    except SourceError as error:
                        whys[number] = f"{path}: {error}"
        if all(rank.key[1] in dumps for rank in ranks if rank.up) or clock.monotonic() >= until:
            return dumps
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
        return sorted(entry for entry in folder.iterdir() if not entry.is_symlink())
    except OSError:
        return []
