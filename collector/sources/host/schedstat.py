"""How long the ranks waited for a processor: the scheduler's own count."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.files.opening import read_lines
from lockstep.collector.readings.source import RankProcess, Rejected, SourceError

LIMIT = 4096
_LINE = re.compile(r"[0-9]{1,20} ([0-9]{1,20}) [0-9]{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RunQueued:
    """Seconds by rank since its main thread began."""

    seconds: tuple[tuple[RankProcess, float], ...]
    rejected: tuple[Rejected, ...]


class Schedstat:
    """Source of RunQueued: /proc/PID/schedstat (kernel Documentation/scheduler/sched-stats.rst).

    The file of a process is that of its main thread, which is the one that trains.
    """

    name = "schedstat"

    def __init__(self, proc: Path, ranks: Callable[[], Sequence[RankProcess]]) -> None:
        self._proc = proc
        self._ranks = ranks

    def available(self) -> bool:
        """Whether the kernel keeps the count."""
        return (self._proc / "self" / "schedstat").exists()

    def read(self) -> RunQueued:
        """Read every living rank's count."""
        seconds: list[tuple[RankProcess, float]] = []
        rejected: list[Rejected] = []
        for rank in self._ranks():
            try:
                seconds.append((rank, self._waited(rank.pid)))
            except SourceError as error:
                if error.reason != "missing":  # the rank has just ended
                    rejected.append(Rejected.of(error))
        return RunQueued(tuple(seconds), tuple(rejected))

    def _waited(self, pid: int) -> float:
        path = self._proc / str(pid) / "schedstat"
        lines = read_lines(path, LIMIT)
        match = _LINE.fullmatch(lines[0]) if len(lines) == 1 else None
        if match is None:
            raise SourceError("malformed", f"{path} is not three numbers on one line")
        return int(match[1]) / 1e9
