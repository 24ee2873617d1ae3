"""The PyTorch flight recorder: dumps that the ranks of this node wrote, lately."""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lockstep.collector.clock import Clock
from lockstep.collector.files.opening import FOREIGN, opened_of, pinned, reopened
from lockstep.collector.formats.flight_recorder.dump import (
    MAX_BYTES,
    Dump,
    GroupState,
    parse,
    trees,
)
from lockstep.collector.readings.source import RankProcess, Rejected, SourceError
from lockstep.collector.sources.nccl.flight_recorder.dump_files import (
    PIPE_VARIABLE,
    Named,
    Place,
    RankOwners,
    Teller,
    beside_rings,
    denied,
    named_prefix,
    old_prefix,
    prefixes_of,
    told_by,
    with_prefix,
)
from lockstep.collector.sources.nccl.flight_recorder.missing import Missing, missing

__all__ = [
    "MAX_BYTES", "PIPE_VARIABLE", "Dump", "DumpReading", "FlightRecorder", "GroupState", "Missing",
    "dump_and_bytes", "missing", "named_prefix", "old_prefix", "read_dump", "request_dump", "trees",
]  # fmt: skip

SHOWN_SECONDS = 600.0
"""A dump is evidence for as long as a rank that is gone."""
LOOK_SECONDS = 5.0
WRITING_SECONDS = 10.0
"""A broken dump that was written so lately may be whole a moment later."""
SILENT_SECONDS = 5.0
"""How much later than the others' a rank's dump may come."""
MAX_DUMPS = 64
MAX_PREFIXES = 16
BYTES_A_READING = 4 << 20
"""Of 3 MB are read in a tenth of a second; a hang makes all ranks write theirs at once."""
BYTES_OF_A_START = 1 << 18
"""What a dump counts at least: its process takes 20 ms to start, and 16 of them are a reading."""

TOO_BUSY = frozenset(("timeout", "no_process"))

Key = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class DumpReading:
    """Every dump of the last SHOWN_SECONDS, newest of each rank.

    Attributes:
        now: Unix time.
        missing: By run.
    """

    now: float
    dumps: tuple[Dump, ...]
    missing: tuple[tuple[str, Missing], ...]
    rejected: tuple[Rejected, ...]


class FlightRecorder:
    """Source of DumpReading. A file is parsed once for each time it is written.

    Args:
        prefix: What stands before the rank in the paths of dumps, besides what the ranks say.
        living: Ranks of this node by their rings.
        processes: The same as our process table has them; None = as `living`.
        owners: Ranks that have a ring, living or gone, and whose it is; None = as `living`.
    """

    name = "flight_recorder"

    def __init__(
        self,
        prefix: str | None,
        lockstep_dir: Path,
        proc: Path,
        clock: Clock,
        living: Callable[[], Sequence[RankProcess]],
        processes: Callable[[], Sequence[RankProcess]] | None = None,
        owners: Callable[[], Sequence[RankProcess]] | None = None,
    ) -> None:
        self._prefix = prefix or old_prefix()
        self._dir = lockstep_dir
        self._proc = proc
        self._clock = clock
        self._living = living
        self._processes = processes or living
        self._ringed = owners or living
        self._owners = RankOwners()
        self._refused: dict[Path, Key] = {}
        self._in_the_way: list[Rejected] = []
        self._said: dict[int, str | None] = {}
        self._tellers: dict[Named, Teller] = {}
        self._parsed: dict[Path, tuple[Key, Dump | None]] = {}
        self._looked_at: float | None = None
        self._reading = DumpReading(0.0, (), (), ())
        self._waiting = self._there = False

    def available(self) -> bool:
        """Whether there is a dump of the last SHOWN_SECONDS."""
        now = self._clock.monotonic()
        due = self._looked_at is None or now - self._looked_at >= LOOK_SECONDS
        if due or self._waiting:
            self._looked_at = now
            self._reading = self._look()
            self._there = bool(self._reading.dumps or self._reading.rejected)
        return self._there

    def why_not(self) -> str:
        """What is missing."""
        minutes = SHOWN_SECONDS / 60
        return (
            f"no dump of the last {minutes:g} minutes at {self._prefix}<rank> or beside the rings"
        )

    def read(self) -> DumpReading:
        """The dumps; what was refused is reported once."""
        reading = self._reading
        self._reading = DumpReading(reading.now, reading.dumps, reading.missing, ())
        return DumpReading(self._clock.wall(), reading.dumps, reading.missing, reading.rejected)

    def _look(self) -> DumpReading:
        now = self._clock.wall()
        places, rejected = self._places(now)
        fresh: dict[tuple[str, int], Dump] = {}
        unread: set[tuple[str, int]] = set()
        known: dict[Path, tuple[Key, Dump | None]] = {}
        spent, self._waiting = 0, False
        living = [(rank.run, rank.rank) for rank in self._living()]
        ringed = self._ringed()
        rejected += self._denied(ringed)
        self._owners.see(ringed, living, now)
        for place, key, user in self._newest(places, now, rejected):
            before = self._parsed.get(place.path)
            if before is not None and before[0] == key:
                known[place.path] = before
            elif spent and spent + key[2] > BYTES_A_READING:
                self._waiting = True
            else:
                spent += max(key[2], BYTES_OF_A_START)
                self._parse(place, key, user, now, known, rejected)
            dump = known[place.path][1] if place.path in known else None
            if dump is not None:
                fresh.setdefault((place.run, place.rank), replace(dump, run=place.run))
            else:
                unread.add((place.run, place.rank))
        self._parsed = known
        here = [who for who in living if who not in unread]
        dumps = tuple(fresh[key] for key in sorted(fresh))
        return DumpReading(now, dumps, tuple(_missing(dumps, here, now)), tuple(rejected))

    def _denied(self, ranks: Sequence[RankProcess]) -> list[Rejected]:
        """Ranks that cannot be asked for dumps; each obstacle is reported once."""
        reasons = list(dict.fromkeys(filter(None, map(denied, ranks))))
        new = [reason for reason in reasons if reason not in self._in_the_way]
        self._in_the_way = reasons
        return new

    def _places(self, now: float) -> tuple[list[Place], list[Rejected]]:
        processes = self._processes()
        self._said, rejected = prefixes_of(processes, self._proc, self._said)
        self._tellers = told_by(processes, self._said, self._tellers, now)
        places, refused = beside_rings(self._dir)
        rejected += refused
        named = {(prefix, rank) for prefix, rank, _ in self._tellers}
        prefixes = list(dict.fromkeys((self._prefix, *(prefix for prefix, *_ in self._tellers))))
        if len(prefixes) > MAX_PREFIXES:
            words = f"the ranks name {len(prefixes)} places of dumps; {MAX_PREFIXES} are looked at"
            rejected.append(Rejected("too_many", words))
        for prefix in prefixes[:MAX_PREFIXES]:
            files, refused = with_prefix(prefix)
            rejected += refused
            # In a home that many nodes share lie dumps of ranks that are not ours.
            places += [
                place for place in files if prefix == self._prefix or (prefix, place.rank) in named
            ]
        return places, rejected

    def _newest(
        self, places: list[Place], now: float, rejected: list[Rejected]
    ) -> list[tuple[Place, Key, int]]:
        """At most MAX_DUMPS files written lately, newest first, and whose each is.

        Those that are not of their rank's user are refused before they are counted.
        """
        fresh = []
        users: dict[str, list[int]] = {}
        for place in places:
            try:
                status = os.lstat(place.path)
            except OSError:  # removed between listing and looking; a link is refused on opening
                continue
            written = status.st_mtime_ns / 1e9
            if abs(now - written) <= SHOWN_SECONDS:
                if not place.run:
                    place = self._of_run(place, written, status.st_uid)
                key = status.st_ino, status.st_mtime_ns, status.st_size
                fresh.append((place, key, status.st_uid))
                users.setdefault(place.prefix, []).append(status.st_uid)
        before, self._refused = self._refused, {}
        ours = []
        for place, key, user in fresh:
            why = self._owners.why_foreign(place, user, users)
            if not why:
                ours.append((place, key, user))
                continue
            self._refused[place.path] = key
            if before.get(place.path) != key:
                rejected.append(Rejected(FOREIGN, f"{place.path}: {why}"))
        ours.sort(key=lambda one: (-one[1][1], one[0].rank))
        return ours[:MAX_DUMPS]

    def _of_run(self, place: Place, written: float, user: int) -> Place:
        """With the run of that user whose rank names the place, unless the file is older."""
        named = place.prefix, place.rank
        teller = self._tellers.get((*named, user)) or self._tellers.get((*named, None))
        return place if teller is None or written < teller.since else place.of(teller.run)

    def _parse(
        self,
        place: Place,
        key: Key,
        user: int,
        now: float,
        known: dict[Path, tuple[Key, Dump | None]],
        rejected: list[Rejected],
    ) -> None:
        """What is broken and was written just now is read again, for torch writes in place.

        So is what this machine was too busy to read.
        """
        try:
            dump = read_dump(place.path, place.run, place.rank, user)
        except SourceError as error:
            if error.reason == "content" and 0 <= now - key[1] / 1e9 < WRITING_SECONDS:
                return
            if error.reason not in TOO_BUSY:
                known[place.path] = key, None
            rejected.append(Rejected(error.reason, f"{place.path}: {error}"))
        else:
            known[place.path] = key, dump
            rejected += dump.rejected


def read_dump(path: Path, run: str, rank: int, user: int | None = None) -> Dump:
    """One dump.

    Args:
        path: Of the file; no link on its way is followed.
        run: Whose dump it is.
        rank: Likewise.
        user: Whose file it must be; None = anybody's.

    Raises:
        SourceError: It cannot be read, is of another user, too large, or no dump.
    """
    return dump_and_bytes(path, run, rank, user)[0]


def dump_and_bytes(path: Path, run: str, rank: int, user: int | None) -> tuple[Dump, bytes]:
    """One dump, and the bytes that it was parsed from: the file may be another one by now.

    Raises:
        SourceError: As `read_dump`.
    """
    with opened_of(path, user) as descriptor:
        written_at = os.fstat(descriptor).st_mtime_ns / 1e9
        with os.fdopen(os.dup(descriptor), "rb") as file:
            data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise SourceError("too_large", f"a dump of over {MAX_BYTES >> 20} MiB")
    return parse(data, run, rank, written_at), data


def _missing(
    dumps: Sequence[Dump], here: Sequence[tuple[str, int]], now: float
) -> Iterator[tuple[str, Missing]]:
    """By run; a rank is silent only once the others' dumps have lain there for a while."""
    for run in sorted({dump.run for dump in dumps}):
        of_run = [dump for dump in dumps if dump.run == run]
        settled = now - max(dump.written_at for dump in of_run) >= SILENT_SECONDS
        ranks = [rank for name, rank in here if name == run] if settled else []
        for absence in missing(of_run, ranks):
            yield run, absence


SUFFIX = ".pipe"
"""torch makes `<TORCH_NCCL_DEBUG_INFO_PIPE_FILE><rank>.pipe` and reads it about once a second."""


def request_dump(prefix: str, rank: int, user: int | None = None) -> Path:
    """Write to the pipe of a rank, without waiting for it; returns the pipe's path.

    Args:
        prefix: What stands before the rank in its path, as the rank's environment says.
        rank: The rank.
        user: Whose the pipe must be; None = anybody's.

    Raises:
        SourceError: There is no such pipe, it is none or of another user, or nobody reads it.
    """
    path = Path(f"{prefix}{rank}{SUFFIX}")
    try:
        with pinned(path) as pipe:
            _ask(path, pipe, user)
    except SourceError as error:
        if error.reason == "missing":
            text = f"{path} does not exist; the rank needs {PIPE_VARIABLE}"
            raise SourceError("missing", text) from error
        if error.reason == "symlink":
            text = f"{path} is a symbolic link or lies behind one; torch would have made a pipe"
            raise SourceError("not_pipe", text) from error
        raise
    return path


def _ask(path: Path, pipe: int, user: int | None) -> None:
    status = os.fstat(pipe)
    if not stat.S_ISFIFO(status.st_mode):
        raise SourceError("not_pipe", f"{path} is no pipe; torch would have made one")
    if user is not None and status.st_uid != user:
        raise SourceError(FOREIGN, f"{path} is of user {status.st_uid}, not of user {user}")
    try:
        descriptor = reopened(pipe, os.O_WRONLY)
        try:
            os.write(descriptor, b"1\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SourceError(*_why(path, error)) from error


def _why(path: Path, error: OSError) -> tuple[str, str]:
    match error.errno:
        case errno.ENXIO:
            return "refused", f"no process reads {path}; the rank has ended"
        case errno.EAGAIN:
            return "full", f"{path} is full; the rank does not read it any more"
        case errno.EACCES | errno.EPERM:
            return "permission", f"{path}: {error.strerror}"
        case _:
            return "io", f"{path}: {error.strerror}"
