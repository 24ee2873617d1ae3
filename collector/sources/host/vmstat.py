"""Processes killed for lack of memory and memory of the wrong NUMA node, from /proc/vmstat."""

import re
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.files.opening import read_lines
from lockstep.collector.readings.source import SourceError

LIMIT = 1 << 20
_LINE = re.compile(r"(oom_kill|numa_miss) ([0-9]{1,20})", re.ASCII)


@dataclass(frozen=True, slots=True)
class VirtualMemory:
    """Counts since boot; None = this kernel does not count it.

    Attributes:
        numa_misses: Pages that were wanted on another NUMA node than they were found on.
    """

    oom_kills: int | None
    numa_misses: int | None


class Vmstat:
    """Source of VirtualMemory."""

    name = "vmstat"

    def __init__(self, proc: Path) -> None:
        self._path = proc / "vmstat"

    def available(self) -> bool:
        """Whether the kernel keeps the counts."""
        return self._path.exists()

    def read(self) -> VirtualMemory:
        """Read both counts.

        Raises:
            SourceError: The file cannot be read or holds neither.
        """
        lines = read_lines(self._path, LIMIT)
        counts = {m[1]: int(m[2]) for line in lines if (m := _LINE.fullmatch(line))}
        if not counts:
            raise SourceError("content", f"{self._path} has neither oom_kill nor numa_miss")
        return VirtualMemory(counts.get("oom_kill"), counts.get("numa_miss"))
