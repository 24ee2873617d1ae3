"""The rings of this node: one scan serves all sources, and keeps what earlier ones learnt."""

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lockstep.collector.clock import Clock
from lockstep.collector.contract import ring
from lockstep.collector.files.finder import Finder
from lockstep.collector.files.opening import opened
from lockstep.collector.readings.source import Rejected, SourceError
from lockstep.collector.sources.ranks.header import AHEAD_NS, check_size, read_header
from lockstep.collector.sources.ranks.owners import Claims, Owners, Rank
from lockstep.collector.sources.ranks.processes import Writers
from lockstep.collector.sources.ranks.selection import Newest

# One rank of this node, as its ring and the process table tell.


MAX_RINGS = 64


class Scan(NamedTuple):
    """What one look found.

    Attributes:
        monotonic: When it was made, in seconds.
        ranks: At most MAX_RINGS.
        rejected: What was left out, and why.
        states: Number of rings by what became of them, as `lockstep_rings` tells it.
    """

    monotonic: float
    ranks: tuple[Rank, ...]
    rejected: tuple[Rejected, ...]
    states: dict[str, int]


class Rings:
    """The rings in a folder or one level below; for many threads."""

    def __init__(self, folder: Path, proc: Path, clock: Clock) -> None:
        self.folder = folder
        self._clock = clock
        self._finder = Finder(folder, "rank-", ring.FILE_SUFFIX)
        self.writers = Writers(proc, clock)
        self._owners = Owners(folder)
        self._newest = Newest(clock, lambda path, uid: self._owners.of(path, uid))
        self._claims = Claims()
        self._lock = threading.Lock()
        self._last: Scan | None = None

    def scan(self, within: float = 0.0) -> Scan:
        """Every rank that has a readable ring, and what was refused.

        Two rings of one rank (a restart in another pod) give one rank (`Claims`). Of more than
        MAX_RINGS those of living ranks are read first, those of their owners in turn.

        Args:
            within: A look that was made within so many seconds is as good.
        """
        with self._lock:
            now = self._clock.monotonic()
            if self._last is None or not 0 <= now - self._last.monotonic < within:
                self._last = self._scan(now)
            return self._last

    def memory(self) -> dict[str, Any]:
        """Whose each run and rank is, and which files to look at first, as JSON values."""
        return self._claims.memory() | {"living": sorted(self._newest.living)}

    def recall(self, tree: Any) -> None:
        """Go on with the memory of an earlier process.

        Raises:
            ValueError: It is not what `memory` gave.
        """
        match tree:
            case {"holders": holders, "living": list(living)} if all(map(self._is_ours, living)):
                self._claims.recall(holders, tree.get("lived"))
                self._newest.lived(living[:MAX_RINGS])
            case _:
                raise ValueError(f"it is no holders and living rings in {self.folder}")

    def _is_ours(self, path: Any) -> bool:
        return isinstance(path, str) and self.folder in Path(path).parents

    def _scan(self, now: float) -> Scan:
        part = self._finder.look()
        rejected = list(part.rejected)
        self._owners = Owners(self.folder)
        chosen = self._newest.of(part.names, MAX_RINGS, whole=part.whole)
        living, quiet = self._newest.living_left_out, self._newest.quiet_left_out
        if living or quiet:
            count = len(chosen) + living + quiet
            text = (
                f"{count} rings in {self.folder}; {MAX_RINGS} are read, of living ranks first and"
                f" of all owners in turn; {living} that are left out have a fresh heartbeat"
            )
            rejected.append(Rejected("too_many", text))
        rejected += self._owners.unsafe(map(Path, chosen))
        read = list(self._read(map(Path, chosen), rejected))
        self._newest.lived(str(rank.path) for rank, _ in read if rank.up)
        ranks, refused = self._claims.settle(read, now)
        states = {"read": len(read), "living_left_out": living, "quiet_left_out": quiet}
        return Scan(now, tuple(ranks), (*rejected, *refused), states)

    def _read(self, paths: Iterable[Path], rejected: list[Rejected]) -> Iterator[tuple[Rank, str]]:
        """Each ring with its owner."""
        for path in paths:
            try:
                with opened(path) as descriptor:
                    check_size(descriptor)
                    header = read_header(descriptor, self._clock)
                    status = os.fstat(descriptor)
                    owner = self._owners.of(path, status.st_uid)
                who = header.identity
                if path.name != ring.file_name(who.rank):
                    raise SourceError("content", f"{path} says that it is rank {who.rank}")
                if header.heartbeat_ns > self._clock.monotonic() * 1e9 + AHEAD_NS:
                    rejected.append(
                        Rejected("clock", f"{path}: its heartbeat is ahead of our clock")
                    )
                elif header.live is None:
                    rejected.append(
                        Rejected("guard", f"{path}: its writer stopped inside a record")
                    )
                up, pid = self.writers.find(path, header)
                yield Rank(path, header, up, pid, _there_ns(path, status), status.st_uid), owner
            except SourceError as error:
                if error.reason != "missing":  # removed between listing and opening
                    rejected.append(Rejected(error.reason, f"{path}: {error}"))


def _there_ns(path: Path, status: os.stat_result) -> int:
    """Whoever makes a file changes its folder; nobody sets the time of a change (inode(7))."""
    try:
        return min(status.st_ctime_ns, path.parent.stat().st_ctime_ns)
    except OSError:  # removed meanwhile
        return status.st_ctime_ns


def scan(folder: Path, proc: Path, clock: Clock) -> tuple[list[Rank], list[Rejected]]:
    """The ranks with a ring in the folder, and what was refused, for who looks but once."""
    seen = Rings(folder, proc, clock).scan()
    return list(seen.ranks), list(seen.rejected)


# The living ranks of this node, for the sources that look at their processes; one scan for all.

SCAN_SECONDS = 0.5
"""A scan serves all who ask within so long; whose rank has ended meanwhile finds no process."""


class LivingRanks:
    """Ranks whose processes live, as of the last half second."""

    def __init__(self, rings: Rings) -> None:
        self._rings = rings
        self._found: tuple[Scan | None, tuple[Rank, ...]] = (None, ())

    def __call__(self) -> tuple[Rank, ...]:
        """The living ranks; those who ask at the same time share one scan, and the tuple."""
        scan, ranks = self._found
        now = self._rings.scan(SCAN_SECONDS)
        if now is not scan:
            ranks = tuple(rank for rank in now.ranks if rank.up)
            self._found = now, ranks
        return ranks
