"""What this collector itself uses, its child processes included: CPU time and resident memory."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.files.opening import read_bytes, read_lines
from lockstep.collector.readings.source import SourceError

LIMIT = 4096
_TICKS = (11, 12)
_ENDED_TICKS = (13, 14)
"""Fields after the command name, from 0 (proc(5) fields 14 to 17)."""
_RSS = 1
"""Field of statm, from 0: stat has it too, but only to some pages for each processor."""
_PIDS = re.compile(rb"[0-9 ]*")


@dataclass(frozen=True, slots=True)
class OwnProcess:
    """CPU time in seconds and resident memory in bytes, summed over this process and its children.

    Pages that the processes share count for each of them.
    """

    cpu_seconds: float
    resident_bytes: int


class OwnProcessStat:
    """Source of OwnProcess."""

    name = "own_process"

    def __init__(self, proc: Path) -> None:
        self._proc = proc

    def available(self) -> bool:
        """Whether this procfs knows this process."""
        return (self._proc / "self" / "stat").exists()

    def read(self) -> OwnProcess:
        """Read both.

        Raises:
            SourceError: The file is missing or is not a process's line.
        """
        # Children that ended are counted by the kernel for those who waited for them.
        ticks, pages = self._process("self", (*_TICKS, *_ENDED_TICKS))
        for child in self._children():
            try:
                more, held = self._process(child, _TICKS)
            except SourceError as error:
                if error.reason != "missing":  # it has ended since
                    raise
                continue
            ticks, pages = ticks + more, pages + held
        return OwnProcess(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE"))

    def _process(self, pid: str, times: tuple[int, ...]) -> tuple[int, int]:
        """(ticks, pages)."""
        stat, statm = (self._proc / pid / name for name in ("stat", "statm"))
        after_name = "".join(read_lines(stat, LIMIT)[:1]).rpartition(")")[2]
        pages = "".join(read_lines(statm, LIMIT)[:1])
        try:
            ticks = sum(int(after_name.split()[index]) for index in times)
            return ticks, int(pages.split()[_RSS])
        except (IndexError, ValueError) as error:
            raise SourceError("content", f"{stat} or {statm} is not a process's line") from error

    def _children(self) -> list[str]:
        """Process ids; none where the kernel was built without the list."""
        pids: list[str] = []
        for path in (self._proc / "self" / "task").glob("*/children"):
            try:
                # Every number ends in a space, none in a line's end.
                text = read_bytes(path, LIMIT).rpartition(b" ")[0]
            except SourceError as error:
                if error.reason != "missing":  # the thread has ended since
                    raise
                continue
            pids += text.decode("ascii").split() if _PIDS.fullmatch(text) else []
        return pids
