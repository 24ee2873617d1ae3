"""What the disks did, from /proc/diskstats (kernel Documentation/admin-guide/iostats.rst)."""

import re
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.files.persistent_fds import PersistentFd
from lockstep.collector.readings.source import Rejected, SourceError

LIMIT = 1 << 20
SECTOR_BYTES = 512
"""Of diskstats, whatever the sectors of the disk."""
MAX_DISKS = 64

_LINE = re.compile(r" *[0-9]+ +[0-9]+ (\S{1,64}) ([0-9]{1,20}(?: [0-9]{1,20}){10,})", re.ASCII)
# Memory, files and partitions: what they do is counted by the disk below them, or is no disk.
_NO_DISK = re.compile(r"(z?ram|loop|fd|sr)\d+|(h|s|v|xv)d[a-z]+\d+|(nvme\d+n\d+|mmcblk\d+)p\d+")


@dataclass(frozen=True, slots=True)
class Disk:
    """Counters of one disk since boot; each pair is (read, write).

    Attributes:
        seconds: Summed over requests, queueing included.
        busy_seconds: At least one request was under way.
        in_flight: Requests under way now.
    """

    device: str
    bytes: tuple[int, int]
    operations: tuple[int, int]
    seconds: tuple[float, float]
    busy_seconds: float
    in_flight: int


@dataclass(frozen=True, slots=True)
class Disks:
    """Every disk, in the kernel's order."""

    disks: tuple[Disk, ...]
    rejected: tuple[Rejected, ...]


class Diskstats:
    """Source of Disks."""

    name = "diskstats"

    def __init__(self, proc: Path) -> None:
        self._file = PersistentFd(proc / "diskstats", LIMIT)
        self._before: tuple[bytes, Disks] | None = None

    def available(self) -> bool:
        """Whether the kernel keeps the counts."""
        return self._file.exists()

    def read(self) -> Disks:
        """Read every disk; a line that is malformed is left out alone.

        Raises:
            SourceError: The file cannot be read.
        """
        text = self._file.read()
        if self._before is None or self._before[0] != text:
            self._before = (text, self._parsed(text))
        return self._before[1]  # the very same while no disk does anything

    def _parsed(self, text: bytes) -> Disks:
        disks: dict[str, Disk] = {}
        rejected: list[Rejected] = []
        for line in text.decode("utf-8", "replace").split("\n")[:-1]:
            match = _LINE.fullmatch(line)
            if match is None or not match[1].isprintable():
                rejected.append(
                    Rejected("content", f"{self._file.path}: {line[:80]!r} is not a disk")
                )
            elif not _NO_DISK.fullmatch(match[1]):
                disks.setdefault(match[1], _disk(match[1], match[2]))
        if len(disks) > MAX_DISKS:
            rejected.append(Rejected("too_many", f"{len(disks)} disks; {MAX_DISKS} are read"))
        if not disks and rejected:
            raise SourceError(rejected[0].reason, rejected[0].message)
        return Disks(tuple(disks.values())[:MAX_DISKS], tuple(rejected))


def _disk(device: str, numbers: str) -> Disk:
    # reads, merged, sectors, ms | writes, merged, sectors, ms | in flight, busy ms, weighted ms
    n = [int(text) for text in numbers.split()[:11]]
    return Disk(
        device,
        (n[2] * SECTOR_BYTES, n[6] * SECTOR_BYTES),
        (n[0], n[4]),
        (n[3] / 1e3, n[7] / 1e3),
        n[9] / 1e3,
        n[8],
    )
