"""How the processors keep up with received packets, from /proc/net/softnet_stat."""

import re
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.files.persistent_fds import PersistentFd
from lockstep.collector.readings.source import SourceError

LIMIT = 1 << 20
WRAP = 1 << 32
"""The kernel prints 32 bits: at a million packets a second they wrap in an hour."""
_PROCESSOR = 12
"""Column of the processor's number, since Linux 5.10; before, the line counts."""

_LINE = re.compile(rb"[0-9a-f]{8}(?: [0-9a-f]{8}){8,31}")


@dataclass(frozen=True, slots=True)
class Softnet:
    """Summed over processors, since boot; a wrap before the collector's start is not seen.

    Attributes:
        dropped: The backlog was full.
        squeezed: The time or the budget of a round was over with packets left.
    """

    processed: int
    dropped: int
    squeezed: int


class SoftnetStat:
    """Source of Softnet."""

    name = "softnet"

    def __init__(self, proc: Path) -> None:
        self._file = PersistentFd(proc / "net" / "softnet_stat", LIMIT)
        self._text = b""
        self._raw: dict[int, tuple[int, ...]] = {}
        self._totals = [0, 0, 0]

    def available(self) -> bool:
        """Whether the kernel keeps the counts."""
        return self._file.exists()

    def read(self) -> Softnet:
        """Read all processors; their wraps are undone.

        Raises:
            SourceError: The file cannot be read or a line is malformed.
        """
        text = self._file.read()
        fresh = {} if text and text == self._text else self._processors(text)
        for processor, counts in fresh.items():
            before = self._raw.get(processor, (0, 0, 0))
            for index, count in enumerate(counts):
                self._totals[index] += (count - before[index]) % WRAP
        self._raw |= fresh
        self._text = text
        return Softnet(*self._totals)

    def _processors(self, text: bytes) -> dict[int, tuple[int, ...]]:
        counts: dict[int, tuple[int, ...]] = {}
        for number, line in enumerate(text.splitlines()):
            if _LINE.fullmatch(line) is None:
                raise SourceError("content", f"{self._file.path}: {line[:80]!r} is not a processor")
            columns = [int(column, 16) for column in line.split()]
            processor = columns[_PROCESSOR] if len(columns) > _PROCESSOR else number
            counts[processor] = tuple(columns[:3])
        if not counts:
            raise SourceError("content", f"{self._file.path} names no processor")
        return counts
