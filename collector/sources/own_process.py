"""What this collector itself uses: CPU time and resident memory, from /proc/self/stat."""

import os
from dataclasses import dataclass
from pathlib import Path

from collector.files import read_lines
from collector.reading import SourceError

LIMIT = 4096
_UTIME, _STIME, _RSS = 11, 12, 21
"""Fields after the command name, from 0 (proc(5) fields 14, 15 and 24)."""


@dataclass(frozen=True, slots=True)
class OwnProcess:
    """CPU time in seconds and resident memory in bytes."""

    cpu_seconds: float
    resident_bytes: int


class OwnProcessStat:
    """Source of OwnProcess."""

    name = "own_process"

    def __init__(self, proc: Path) -> None:
        self._path = proc / "self" / "stat"

    def available(self) -> bool:
        """Whether this procfs knows this process."""
        return self._path.exists()

    def read(self) -> OwnProcess:
        """Read both.

        Raises:
            SourceError: The file is missing or is not a process's line.
        """
        lines = read_lines(self._path, LIMIT)
        fields = lines[0].rpartition(")")[2].split() if lines else []
        try:
            ticks = int(fields[_UTIME]) + int(fields[_STIME])
            pages = int(fields[_RSS])
        except (IndexError, ValueError) as error:
            raise SourceError("content", f"{self._path} is not a process's line") from error
        return OwnProcess(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE"))
