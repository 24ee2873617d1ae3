"""How long the CPU quota held the ranks back, from their cgroups (version 1 and 2)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from lockstep.collector.files.opening import read_lines
from lockstep.collector.readings.source import RankProcess, Rejected, SourceError

LIMIT = 64 * 1024
_LINE = re.compile(r"[0-9]{1,9}:([^:]*):(/.*)")
_THROTTLED = re.compile(r"throttled_(time|usec) ([0-9]{1,19})", re.ASCII)
_SECONDS = {"time": 1e-9, "usec": 1e-6}


@dataclass(frozen=True, slots=True)
class Throttled:
    """Seconds by rank; a rank without a CPU quota file is absent."""

    seconds: tuple[tuple[RankProcess, float], ...]
    rejected: tuple[Rejected, ...]


class _Counter(NamedTuple):
    """Keeps one rank's seconds from falling when it moves to another cgroup."""

    group: Path
    raw: float
    seconds: float

    def next(self, group: Path, raw: float) -> "_Counter":
        """After one more reading; what a group counted while the rank was elsewhere is not its."""
        more = max(0.0, raw - self.raw) if group == self.group else 0.0
        return _Counter(group, raw, self.seconds + more)


class Cgroups:
    """Source of Throttled."""

    name = "cgroup"

    def __init__(self, proc: Path, sys: Path, ranks: Callable[[], Sequence[RankProcess]]) -> None:
        self._proc = proc
        self._root = sys / "fs" / "cgroup"
        self._ranks = ranks
        self._counters: dict[RankProcess, _Counter] = {}
        self._folders: dict[tuple[str, ...], Path | None] = {}

    def available(self) -> bool:
        """Whether cgroups are mounted."""
        return self._root.is_dir()

    def read(self) -> Throttled:
        """Read the cgroup of every living rank."""
        seconds: list[tuple[RankProcess, float]] = []
        rejected: list[Rejected] = []
        ranks = self._ranks()
        known_folders, self._folders = self._folders, {}
        for rank in ranks:
            try:
                throttled = self._throttled(rank.pid, known_folders)
            except SourceError as error:
                if error.reason != "missing":  # ended, or no CPU controller here
                    rejected.append(Rejected.of(error))
                continue
            if throttled is not None:
                group, raw = throttled
                known = self._counters.get(rank)
                counter = known.next(group, raw) if known else _Counter(group, raw, raw)
                self._counters[rank] = counter
                seconds.append((rank, counter.seconds))
        self._counters = {rank: one for rank, one in self._counters.items() if rank in ranks}
        return Throttled(tuple(seconds), tuple(rejected))

    def _throttled(
        self, pid: int, known: Mapping[tuple[str, ...], Path | None]
    ) -> tuple[Path, float] | None:
        """(cgroup folder, seconds throttled), or None where the kernel keeps no such count."""
        lines = tuple(read_lines(self._proc / str(pid) / "cgroup", LIMIT))
        # A process hardly ever moves, and ranks of one pod share a folder.
        group = known[lines] if lines in known else self._folder(lines)
        self._folders[lines] = group
        if group is None:
            return None
        for line in read_lines(group / "cpu.stat", LIMIT):
            if match := _THROTTLED.fullmatch(line):
                return group, int(match[2]) * _SECONDS[match[1]]
        return None  # the root of version 2 has no quota

    def _folder(self, lines: Iterable[str]) -> Path | None:
        """Folder of the cpu controller: version 1 if it is mounted there, else version 2."""
        unified: Path | None = None
        for line in lines:
            match = _LINE.fullmatch(line)
            if match is None:
                continue
            controllers, path = match[1], match[2].lstrip("/")
            if ".." in PurePosixPath(path).parts:
                raise SourceError(
                    "namespace", f"cgroup {match[2]} lies outside what is mounted here"
                )
            if "cpu" in controllers.split(","):
                both = self._root / controllers
                return (both if both.is_dir() else self._root / "cpu") / path
            if not controllers:
                unified = self._root / path
        return unified
