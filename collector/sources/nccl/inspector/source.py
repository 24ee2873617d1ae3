"""What NCCL Inspector writes about this node's collectives: files that grow, added up as they do.

A file that was written to since its folder was last looked at is new, and read from its start.
What lies there at the first look is history: counted now, it would look as if it happened now, and
after a restart it would be counted twice. It is followed from its end, or, with a state folder,
from where the collector before stopped reading.
"""

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lockstep.collector.clock import Clock
from lockstep.collector.files.opening import environment
from lockstep.collector.formats.nccl_inspector import Batch, LineReader
from lockstep.collector.readings.source import RankProcess, Rejected, SourceError
from lockstep.collector.sources.nccl.inspector.files import CHUNK, Log, Tail, logs
from lockstep.collector.sources.nccl.inspector.totals import (
    MAX_OPERATIONS,
    MAX_RANKS,
    OperationTotals,
    RankTotals,
    RankWaits,
    Tally,
)

MAX_SEQUENCES = 1024
"""Of one file; a process has some communicators with some operations each."""
MAX_GAP = 1_000_000
"""Numbers farther apart are of a damaged line, or NCCL has begun anew: what is missing between them
is not known."""


class _Numbers(NamedTuple):
    """The lowest and the highest that came, how many came, and how many were told missing."""

    lowest: int
    highest: int
    came: int
    told: int

    @property
    def missing(self) -> int:
        """How many between them did not come."""
        return self.highest - self.lowest + 1 - self.came


class Sequences:
    """Which numbers of one file's collectives never came.

    NCCL numbers the operations of each kind in each communicator; Inspector leaves out what its
    ring overwrote, and messages below its minimum size.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Numbers] = {}

    def add(self, batch: Batch) -> None:
        """Note their numbers."""
        communicator, _, _, op, numbered, _ = batch.operation
        if not numbered:
            return
        known = self._known.pop((communicator, op), None)
        new = _Numbers(min(batch.sequences), max(batch.sequences), len(batch.sequences), 0)
        if known is not None:
            both = _Numbers(
                min(new.lowest, known.lowest), max(new.highest, known.highest),
                new.came + known.came, known.told,
            )  # fmt: skip
            new = both if both.missing - both.told <= MAX_GAP else new
        if new.missing - new.told > MAX_GAP:
            return
        while len(self._known) >= MAX_SEQUENCES:
            del self._known[next(iter(self._known))]
        self._known[communicator, op] = new

    def gaps(self) -> int:
        """Numbers found missing since the last call; those that come late are not, in one call."""
        gaps = 0
        for key, numbers in self._known.items():
            if numbers.missing > numbers.told:
                gaps += numbers.missing - numbers.told
                self._known[key] = numbers._replace(told=numbers.missing)
        return gaps

    def begin_anew(self) -> None:
        """What came so far says nothing about what comes next."""
        self._known.clear()


__all__ = ["InspectorReading", "NcclInspector"]

FOLDER_VARIABLE = "NCCL_INSPECTOR_DUMP_DIR"
MAX_FILES = 64
MAX_LEFT = 1024
"""Files no longer followed whose place is remembered."""
MAX_FOLDERS = 16
SECONDS_PER_READING = 0.15
"""CPU time that a flood may cost; what is left waits, beyond tail.MAX_LAG it is passed over."""
MAX_BAD = 10_000
"""Lines of no use after which a reading ends: counting them costs time as well."""
TOO_MANY = f"operations of groups of runs are reported, {MAX_OPERATIONS}"
TOO_MANY_RANKS = f"ranks of communicators are reported, {MAX_RANKS}"
DISAGREES = "a bandwidth is not what size, ranks and time give; ours is reported"
LOOK_SECONDS = 5.0
LOOK_SHARE = 0.005
"""Share of the time that looking through folders may take; large ones are looked at less often."""


@dataclass(frozen=True, slots=True)
class InspectorReading:
    """What all files added up to since the collector began.

    Attributes:
        gaps: Collectives that were numbered and not written.
        dropped: Lines that were passed over, being too many.
        ranks: By communicator and rank.
    """

    operations: tuple[OperationTotals, ...]
    gaps: int
    dropped: int
    rejected: tuple[Rejected, ...]
    ranks: tuple[RankTotals, ...] = ()


@dataclass(slots=True)
class _Followed:
    tail: Tail
    run: str = ""
    sequences: Sequences = field(default_factory=Sequences)
    lines: LineReader = field(default_factory=LineReader)


class NcclInspector:
    """Source of InspectorReading.

    Args:
        folders: Where files may lie; besides, the living ranks' environment names folders.
        proc: Where procfs is mounted.
        ranks: The living ranks.
        cpu_time: Seconds that this thread has computed.
    """

    name = "nccl_inspector"

    def __init__(
        self,
        folders: Iterable[Path],
        proc: Path,
        clock: Clock,
        ranks: Callable[[], list[RankProcess]],
        cpu_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self._folders = tuple(folders)
        self._proc = proc
        self._clock = clock
        self._ranks = ranks
        self._cpu_time = cpu_time
        self._named: dict[int, Path | None] = {}
        self._followed: dict[Path, _Followed] = {}
        self._looked_at: dict[Path, float] = {}
        self._look_due = clock.monotonic()
        self._tally = Tally()
        self._waits = RankWaits()
        self._rejected: list[Rejected] = []
        self._refused = False
        self._gaps = self._dropped = 0
        self._left: dict[str, list[Any]] = {}
        self._closed = False

    def available(self) -> bool:
        """Whether there are files to follow, or a folder that refuses to be looked at."""
        if self._clock.monotonic() >= self._look_due:
            self._look()
        return bool(self._followed or self._refused)

    def why_not(self) -> str:
        """What is missing."""
        where = ", ".join(map(str, self._looked_at))
        return f"no <host>-pid<pid>.log in {where}; ranks and we are asked for {FOLDER_VARIABLE}"

    def close(self) -> None:
        """Nothing is read any more: from now on `memory` knows where that was."""
        self._closed = True

    def memory(self) -> dict[str, Any]:
        """How far each file was read; nothing while they are read.

        What a collector that was killed told since it last saved its memory would be told twice.
        """
        followed = self._followed.items() if self._closed else ()
        return {str(path): log.tail.memory() for path, log in followed if log.tail.begun}

    def recall(self, tree: Any) -> None:
        """Go on in the files of an earlier process of this boot; call before `read`.

        Raises:
            ValueError: It is not a memory.
        """
        try:
            for path, place in tree.items():
                Tail(Path(path)).recall(*place)
        except (AttributeError, TypeError) as error:
            raise ValueError(f"it is not what was written: {error!r}") from error
        self._left = tree

    def read(self) -> InspectorReading:
        """Read what was added, a bounded part of it, and tell all that was counted so far."""
        rejected, self._rejected = self._rejected, []
        bad: Counter[tuple[str, str]] = Counter()
        ends = self._cpu_time() + SECONDS_PER_READING
        waiting = deque(self._followed.values())
        while waiting and self._cpu_time() < ends and bad.total() < MAX_BAD:
            followed = waiting.popleft()
            # Whoever had its turn goes to the end, so that the next reading begins with the others.
            self._followed[followed.tail.path] = self._followed.pop(followed.tail.path)
            if self._advance(followed, bad, rejected):
                waiting.append(followed)
        for followed in self._followed.values():
            self._gaps += followed.sequences.gaps()
        for (reason, message), count in bad.items():
            rejected += [Rejected(reason, message)] * count
        now = self._clock.monotonic()
        return InspectorReading(
            self._tally.totals(now), self._gaps, self._dropped, tuple(rejected),
            tuple(self._waits.totals(now)),
        )  # fmt: skip

    def _advance(
        self, followed: _Followed, bad: Counter[tuple[str, str]], rejected: list[Rejected]
    ) -> bool:
        """Count the next part of a file; whether there may be more."""
        tail = followed.tail
        start, before = tail.offset, (tail.dropped, tail.too_long, tail.lost)
        try:
            text = tail.read()
        except SourceError as error:
            self._leave(tail.path)
            if error.reason != "missing":  # its owner removed it
                rejected.append(Rejected.of(error))
            return False
        lines = text.split(b"\n")[:-1]
        if before != (tail.dropped, tail.too_long, tail.lost):
            dropped, too_long, lost = before
            self._dropped += tail.dropped - dropped
            bad["too_long", f"{tail.path}: a line is longer than {CHUNK} bytes"] += (
                tail.too_long - too_long
            )
            bad["lost", f"{tail.path} was begun anew before all of it was read"] += tail.lost - lost
            # What follows does not follow on what came before.
            self._gaps += followed.sequences.gaps()
            followed.sequences.begin_anew()
            followed.lines.begin_anew()
            if tail.dropped > dropped:
                return False
        self._count(followed, lines, bad)
        return tail.offset > start

    def _count(
        self, followed: _Followed, lines: list[bytes], bad: Counter[tuple[str, str]]
    ) -> None:
        batches, defects = followed.lines.batches(lines)
        for (reason, words), count in defects.items():
            bad[reason, f"{followed.tail.path}: {words}"] += count
        for batch in batches:
            followed.sequences.add(batch)
            bad["bandwidth", f"{followed.tail.path}: {DISAGREES}"] += batch.disagreeing
            if not self._tally.add(followed.run, batch):
                self._dropped += len(batch.sizes)
                bad["too_many", f"{TOO_MANY} at most"] += len(batch.sizes)
            if not self._waits.add(followed.run, batch):
                bad["too_many", f"{TOO_MANY_RANKS} at most"] += len(batch.sizes)

    def _look(self) -> None:
        """Look for files in all folders."""
        began = self._clock.monotonic()
        ranks: dict[int, str] = {}
        for rank in self._ranks():
            # In containers pids repeat: of two runs that have one, neither is sure to be it.
            ranks[rank.pid] = rank.run if ranks.get(rank.pid, rank.run) == rank.run else ""
        pids = self._pids()
        newest: list[Log] = []
        before, self._looked_at, self._rejected = self._looked_at, {}, []
        for folder in self._where(ranks):
            looked_at, self._looked_at[folder] = before.get(folder), self._clock.wall()
            some, refused = logs(folder, pids, MAX_FILES)
            newest += some
            self._rejected += refused
            for log in some:
                if log.path not in self._followed:
                    news = looked_at is not None and log.modified >= looked_at
                    tail = Tail(log.path, 0 if news else log.size)
                    if (place := self._left.pop(str(log.path), None)) is not None:
                        tail.recall(*place)
                    self._followed[log.path] = _Followed(tail)
                if log.pid in ranks:
                    self._followed[log.path].run = ranks[log.pid]
        self._refused = bool(self._rejected)
        kept = {log.path for log in sorted(newest, reverse=True)[:MAX_FILES]}
        for path in [path for path in self._followed if path not in kept]:
            if len(self._followed) > MAX_FILES:
                self._leave(path)
        took = self._clock.monotonic() - began
        self._look_due = began + max(LOOK_SECONDS, took / LOOK_SHARE)

    def _leave(self, path: Path) -> None:
        """Follow a file no more; if it comes back, what was counted is not counted again."""
        followed = self._followed.pop(path)
        self._gaps += followed.sequences.gaps()
        if followed.tail.begun:
            self._left[str(path)] = followed.tail.memory()
        while len(self._left) > MAX_LEFT:
            del self._left[next(iter(self._left))]

    def _where(self, ranks: Iterable[int]) -> list[Path]:
        """Folders: those that were given, and those that the living ranks were started with."""
        self._named = {pid: self._named.get(pid) or self._folder_of(pid) for pid in ranks}
        named = {folder for folder in self._named.values() if folder is not None}
        # One spelling each: a file that is found twice would be counted twice.
        folders = dict.fromkeys(Path(os.path.realpath(one)) for one in (*self._folders, *named))
        return list(folders)[:MAX_FOLDERS]

    def _folder_of(self, pid: int) -> Path | None:
        try:
            value = environment(self._proc, pid).get(FOLDER_VARIABLE)
            return Path(os.readlink(self._proc / str(pid) / "cwd"), value) if value else None
        except (SourceError, OSError):
            return None  # gone, or not ours to read: then the folder has to be given

    def _pids(self) -> frozenset[int]:
        try:
            return frozenset(int(name) for name in os.listdir(self._proc) if name.isdecimal())
        except OSError as error:
            raise SourceError("io", f"{self._proc}: {error.strerror}") from error
