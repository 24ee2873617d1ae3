"""The ranks of this node, from their ring files: read with pread, never mapped, taken as hostile.

A mapped file that someone truncates kills the reader, and a reader that locks can block a rank;
pread does neither.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from collector.clock import Clock
from collector.contract import ring
from collector.contract.metrics import RANK_GONE_SECONDS
from collector.files import find, opened
from collector.reading import Rejected, SourceError
from collector.sources.rank_ring.header import AHEAD_NS, Header, check_size, read_header
from collector.sources.rank_ring.newest import Newest
from collector.sources.rank_ring.records import Records, read_records
from collector.sources.rank_ring.writers import Writers

__all__ = ["MAX_RINGS", "Rank", "RankRings", "Records", "RingReading", "read_records", "scan"]

MAX_RINGS = 64

RankKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of this node.

    Attributes:
        up: False once its process is gone.
        pid: Its process in our process table; None if it is gone, or not visible here. In a
            container a rank knows itself by another one, `header.identity.pid`.
    """

    path: Path
    header: Header
    up: bool
    pid: int | None

    @property
    def key(self) -> RankKey:
        """(run, rank)."""
        return self.header.identity.run, self.header.identity.rank


@dataclass(frozen=True, slots=True)
class RingReading:
    """All ranks of this node, by run and rank.

    Attributes:
        monotonic_ns: When it was read, for ages.
        rejected: Files that were left out.
    """

    monotonic_ns: int
    ranks: tuple[Rank, ...]
    rejected: tuple[Rejected, ...]


class RankRings:
    """Source of RingReading. Remembers ranks that are gone for RANK_GONE_SECONDS."""

    name = "rank_ring"

    def __init__(self, lockstep_dir: Path, proc: Path, clock: Clock) -> None:
        self._dir = lockstep_dir
        self._proc = proc
        self._clock = clock
        self._writers = Writers(proc, clock)
        self._newest = Newest(clock)
        self._known: dict[RankKey, Rank] = {}
        self._gone_since: dict[RankKey, float] = {}

    def available(self) -> bool:
        """Whether there is, or lately was, a run on this node."""
        return bool(self._known) or self._dir.is_dir()

    def read(self) -> RingReading:
        """Read every ring's header and ask the process table who still lives."""
        now = self._clock.monotonic()
        ranks, rejected = scan(self._dir, self._proc, self._clock, self._writers, self._newest)
        found = {rank.key: rank for rank in ranks}
        for key, rank in self._known.items():
            # A file that vanished or broke says nothing; the process table still may.
            if key not in found and not self._writers.find(rank.path, rank.header)[0]:
                found[key] = replace(rank, up=False, pid=None)
        for key, rank in found.items():
            # Killed inside the guarded part: the reading before is the last whole one.
            if not rank.up and rank.header.live is None and key in self._known:
                found[key] = replace(self._known[key], up=False, pid=None)
        self._gone_since = {
            key: self._gone_since.get(
                key, now if key in self._known else _last_sign_of_life(rank, now)
            )
            for key, rank in found.items()
            if not rank.up
        }
        shown = {
            key: rank
            for key, rank in found.items()
            if rank.up or now - self._gone_since[key] < RANK_GONE_SECONDS
        }
        self._known = dict(list((self._known | shown).items())[-2 * MAX_RINGS :])
        for key in found.keys() - shown.keys():
            self._known.pop(key, None)
        return RingReading(
            round(now * 1e9), tuple(shown[key] for key in sorted(shown)), tuple(rejected)
        )


def scan(
    folder: Path,
    proc: Path,
    clock: Clock,
    writers: Writers | None = None,
    newest: Newest | None = None,
) -> tuple[list[Rank], list[Rejected]]:
    """Every rank that has a readable ring in the folder or one level below, and what was refused.

    Two rings of one rank (a restart in another pod) give one rank, the one started last. Of more
    than MAX_RINGS those of living ranks are read first. Who scans again and again keeps its
    `writers` and its `newest`.
    """
    paths, rejected = find(folder, "rank-", ring.FILE_SUFFIX)
    if len(paths) > MAX_RINGS:
        rejected.append(
            Rejected(
                "too_many",
                f"{len(paths)} rings in {folder}; {MAX_RINGS} are read, of living ranks first",
            )
        )
    newest = newest or Newest(clock)
    chosen = newest.of(paths, MAX_RINGS)
    whole = list(_ranks(chosen, writers or Writers(proc, clock), clock, rejected))
    newest.lived(rank.path for rank in whole if rank.up)
    ranks: dict[RankKey, Rank] = {}
    for rank in whole:
        other = ranks.get(rank.key)
        if other is None or _started(other) < _started(rank):
            ranks[rank.key] = rank
    return list(ranks.values()), rejected


def _ranks(
    paths: list[Path], writers: Writers, clock: Clock, rejected: list[Rejected]
) -> Iterator[Rank]:
    for path in paths:
        try:
            with opened(path) as descriptor:
                check_size(descriptor)
                header = read_header(descriptor, clock)
            who = header.identity
            if path.name != ring.file_name(who.rank):
                raise SourceError("content", f"{path} says that it is rank {who.rank}")
            if header.heartbeat_ns > clock.monotonic() * 1e9 + AHEAD_NS:
                rejected.append(Rejected("clock", f"{path}: its heartbeat is ahead of our clock"))
            if header.live is None:
                rejected.append(Rejected("guard", f"{path}: its writer stopped inside a record"))
            yield Rank(path, header, *writers.find(path, header))
        except SourceError as error:
            if error.reason != "missing":  # removed between listing and opening
                rejected.append(Rejected(error.reason, f"{path}: {error}"))


def _started(rank: Rank) -> int:
    return rank.header.identity.start_wall_ns


def _last_sign_of_life(rank: Rank, now: float) -> float:
    """When a rank that was never seen alive went, in monotonic seconds: after its last heartbeat.

    A heartbeat in the future is of another boot and says nothing.
    """
    heartbeat = rank.header.heartbeat_ns / 1e9
    return heartbeat if 0 < heartbeat < now else now
