"""The host's processors, load, memory, pressure and network counters, from procfs."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from collector.files import read_lines
from collector.reading import Rejected, SourceError

LIMIT = 1 << 20
"""Bytes of a procfs file that are looked at; /proc/stat of 512 processors has about 60 KB."""
CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Fields of a cpu line of /proc/stat (proc(5)); guest time is already inside user and nice."""
LOAD_WINDOWS = ("1m", "5m", "15m")
MEMORY_PARTS = {
    "free": "MemFree",
    "cached": "Cached",
    "shared": "Shmem",
    "dirty": "Dirty",
    "writeback": "Writeback",
    "swap": "SwapTotal",
    "swap_free": "SwapFree",
}
"""Lines of /proc/meminfo (proc(5)); `shared` holds /dev/shm, where data loaders put batches."""
RESOURCES = ("cpu", "io", "memory", "irq")
LOOPBACK = "lo"

_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}", re.ASCII)
_PRESSURE = re.compile(r"(some|full) avg10=\S+ avg60=\S+ avg300=\S+ total=([0-9]{1,19})", re.ASCII)
_MEMORY = re.compile(r"(\w+):\s+([0-9]{1,16}) kB", re.ASCII)
_INTERFACE = re.compile(r"\s*(\S{1,15}):\s*([0-9]{1,20}(?:\s+[0-9]{1,20}){15})\s*", re.ASCII)
_CPU = re.compile(r"cpu[0-9]+ .*", re.ASCII)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of memory; a part that this kernel does not tell is absent from `parts`."""

    total: int
    available: int
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Interface:
    """Counters of one network device since boot; each is (received, sent)."""

    device: str
    bytes: tuple[int, int]
    packets: tuple[int, int]
    errors: tuple[int, int]
    drops: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Host:
    """What procfs tells now; None or empty = it did not answer.

    Attributes:
        cpu_seconds: By CPU_MODES, summed over processors.
        load: By LOAD_WINDOWS.
        pressure: (resource, some|full, stalled seconds).
    """

    cpu_seconds: tuple[float, ...] | None
    cpu_count: int | None
    load: tuple[float, ...] | None
    memory: Memory | None
    pressure: tuple[tuple[str, str, float], ...]
    interfaces: tuple[Interface, ...]
    rejected: tuple[Rejected, ...]


class Procfs:
    """Source of Host."""

    name = "procfs"

    def __init__(self, proc: Path) -> None:
        self._proc = proc

    def available(self) -> bool:
        """Whether this is a procfs."""
        return (self._proc / "stat").exists()

    def read(self) -> Host:
        """Read all files; one that is missing or malformed is left out alone."""
        rejected: list[Rejected] = []

        def tried(path: Path, parse: Callable[[], T], *, optional: bool = False) -> T | None:
            try:
                return parse()
            except SourceError as error:
                if not (optional and error.reason == "missing"):
                    rejected.append(Rejected.of(error))
            except ValueError as error:
                rejected.append(Rejected("content", f"{path}: {error}"))
            return None

        def read(name: str, parse: Callable[[list[str]], T], *, optional: bool = False) -> T | None:
            path = self._proc / name
            return tried(path, lambda: parse(read_lines(path, LIMIT)), optional=optional)

        stat = read("stat", list)
        seconds = count = None
        if stat is not None:  # one reading of a file that costs the kernel much
            seconds = tried(self._proc / "stat", lambda: cpu_seconds(stat))
        if stat is not None and seconds is not None:
            count = tried(self._proc / "stat", lambda: cpu_count(stat))
        pressure: list[tuple[str, str, float]] = []
        for resource in RESOURCES:
            totals = read(f"pressure/{resource}", pressure_totals, optional=True)
            pressure += ((resource, scope, seconds) for scope, seconds in totals or ())
        return Host(
            seconds,
            count,
            read("loadavg", load_average),
            read("meminfo", memory_bytes),
            tuple(pressure),
            tuple(read("net/dev", lambda lines: tuple(interfaces(lines))) or ()),
            tuple(rejected),
        )


def cpu_seconds(lines: list[str]) -> tuple[float, ...]:
    """Seconds by CPU_MODES from the lines of /proc/stat.

    Raises:
        ValueError: There is no complete line of all processors.
    """
    fields = lines[0].split() if lines else []
    ticks = fields[1 : 1 + len(CPU_MODES)]
    if fields[:1] != ["cpu"] or len(ticks) != len(CPU_MODES) or not _all(_NUMBER, ticks):
        raise ValueError("the first line is not the sum over all processors")
    return tuple(int(tick) / os.sysconf("SC_CLK_TCK") for tick in ticks)


def cpu_count(lines: list[str]) -> int:
    """Processors online, from the lines of /proc/stat.

    Raises:
        ValueError: The list of processors may have been cut off.
    """
    each = [bool(_CPU.fullmatch(line)) for line in lines[1:]]
    count = each.index(False) if False in each else 0
    if count == 0:
        raise ValueError("the list of processors does not end")
    return count


def load_average(lines: list[str]) -> tuple[float, ...]:
    """Load by LOAD_WINDOWS, from the lines of /proc/loadavg.

    Raises:
        ValueError: There are no three numbers.
    """
    fields = lines[0].split()[: len(LOAD_WINDOWS)] if lines else []
    if len(fields) != len(LOAD_WINDOWS) or not _all(_DECIMAL, fields):
        raise ValueError("the first line does not begin with three loads")
    return tuple(float(field) for field in fields)


def memory_bytes(lines: list[str]) -> Memory:
    """Bytes from the lines of /proc/meminfo.

    Raises:
        ValueError: MemTotal or MemAvailable is missing.
    """
    found = {m[1]: int(m[2]) * 1024 for line in lines if (m := _MEMORY.fullmatch(line))}
    if "MemTotal" not in found or "MemAvailable" not in found:
        raise ValueError("MemTotal or MemAvailable is missing")
    parts = tuple((part, found[name]) for part, name in MEMORY_PARTS.items() if name in found)
    return Memory(found["MemTotal"], found["MemAvailable"], parts)


def pressure_totals(lines: list[str]) -> list[tuple[str, float]]:
    """(scope, stalled seconds) from the lines of one pressure file; totals are microseconds.

    Raises:
        ValueError: No line is a pressure line.
    """
    found = {
        match[1]: int(match[2]) / 1e6 for line in lines if (match := _PRESSURE.fullmatch(line))
    }
    if not found:
        raise ValueError("there is no pressure total")
    return list(found.items())


def interfaces(lines: list[str]) -> Iterator[Interface]:
    """Network devices except the loopback, from the lines of /proc/net/dev.

    Raises:
        ValueError: The two title lines are missing, or a line below is not sixteen counters.
    """
    if len(lines) < 2:
        raise ValueError("the two title lines are missing")
    seen = {LOOPBACK}
    for line in lines[2:]:
        match = _INTERFACE.fullmatch(line)
        if match is None or not match[1].isprintable():
            raise ValueError(f"{line[:80]!r} is not a network device")
        if match[1] in seen:
            continue
        seen.add(match[1])
        # Columns: bytes packets errs drop fifo frame compressed multicast | the same for sending.
        n = [int(field) for field in match[2].split()]
        pairs = [(n[column], n[column + 8]) for column in range(4)]
        yield Interface(match[1], *pairs)


def _all(pattern: re.Pattern[str], fields: list[str]) -> bool:
    return all(pattern.fullmatch(field) for field in fields)
