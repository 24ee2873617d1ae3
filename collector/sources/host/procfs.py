"""The host's processors, load, memory and pressure, from procfs."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from lockstep.collector.files.persistent_fds import PersistentFd
from lockstep.collector.readings.source import Rejected, SourceError

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

_ALL = re.compile(rb"cpu((?: +[0-9]{1,19}){8})[ 0-9]*\n")
_EACH = re.compile(rb"cpu [^\n]*\n((?:cpu[0-9]+ [^\n]*\n)+)(?=(?!cpu[0-9])[^\n]*\n)")
_LOAD = re.compile(rb"([0-9]{1,9}\.[0-9]{1,9}) ([0-9]{1,9}\.[0-9]{1,9}) ([0-9]{1,9}\.[0-9]{1,9})\s")
_PRESSURE = re.compile(
    rb"^(some|full) avg10=\S+ avg60=\S+ avg300=\S+ total=([0-9]{1,19})\n", re.MULTILINE
)
_NAMES = {name.encode(): part for part, name in MEMORY_PARTS.items()}
_MEMORY = re.compile(
    rb"^(MemTotal|MemAvailable|" + b"|".join(_NAMES) + rb"):\s+([0-9]{1,16}) kB\n", re.MULTILINE
)
_TICKS = os.sysconf("SC_CLK_TCK")

T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of memory; a part that this kernel does not tell is absent from `parts`."""

    total: int
    available: int
    parts: tuple[tuple[str, int], ...]


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
    rejected: tuple[Rejected, ...]


class Procfs:
    """Source of Host."""

    name = "procfs"

    def __init__(self, proc: Path) -> None:
        self._stat = _Parsed(proc / "stat", cpu_seconds)
        self._load = _Parsed(proc / "loadavg", load_average)
        self._memory = _Parsed(proc / "meminfo", memory_bytes)
        self._pressure = {
            resource: _Parsed(proc / "pressure" / resource, pressure_totals)
            for resource in RESOURCES
        }

    def available(self) -> bool:
        """Whether this is a procfs."""
        return self._stat.file.exists()

    def read(self) -> Host:
        """Read all files; one that is missing or malformed is left out alone."""
        rejected: list[Rejected] = []
        seconds = self._stat.read(rejected)
        count = None if seconds is None else self._stat.parsed(cpu_count, rejected)
        pressure = [
            (resource, scope, stalled)
            for resource, file in self._pressure.items()
            for scope, stalled in file.read(rejected, optional=True) or ()
        ]
        load, memory = self._load.read(rejected), self._memory.read(rejected)
        return Host(seconds, count, load, memory, tuple(pressure), tuple(rejected))


class _Parsed(Generic[T]):
    """A file, and what its text meant the last time: most of them seldom change."""

    def __init__(self, path: Path, parse: Callable[[bytes], T]) -> None:
        self.file = PersistentFd(path, LIMIT)
        self._parse = parse
        self._text = b""
        self._told: T | None = None

    def read(self, rejected: list[Rejected], *, optional: bool = False) -> T | None:
        """What it tells now, or None and why."""
        try:
            text = self.file.read()
        except SourceError as error:
            if not (optional and error.reason == "missing"):
                rejected.append(Rejected.of(error))
            return None
        if text != self._text or self._told is None:
            self._text = text
            self._told = self.parsed(self._parse, rejected)
        return self._told

    def parsed(self, parse: Callable[[bytes], P], rejected: list[Rejected]) -> P | None:
        """What the text that was read last means to this function, or None and why."""
        try:
            return parse(self._text)
        except ValueError as error:
            rejected.append(Rejected("content", f"{self.file.path}: {error}"))
            return None


def cpu_seconds(text: bytes) -> tuple[float, ...]:
    """Seconds by CPU_MODES from /proc/stat.

    Raises:
        ValueError: There is no complete line of all processors.
    """
    match = _ALL.match(text)
    if match is None:
        raise ValueError("the first line is not the sum over all processors")
    return tuple(int(tick) / _TICKS for tick in match[1].split())


def cpu_count(text: bytes) -> int:
    """Processors online, from /proc/stat.

    Raises:
        ValueError: The list of processors may have been cut off.
    """
    match = _EACH.match(text)
    if match is None:
        raise ValueError("the list of processors does not end")
    return match[1].count(b"\n")


def load_average(text: bytes) -> tuple[float, ...]:
    """Load by LOAD_WINDOWS, from /proc/loadavg.

    Raises:
        ValueError: There are no three numbers.
    """
    match = _LOAD.match(text)
    if match is None:
        raise ValueError("the first line does not begin with three loads")
    return tuple(map(float, match.groups()))


def memory_bytes(text: bytes) -> Memory:
    """Bytes from /proc/meminfo.

    Raises:
        ValueError: MemTotal or MemAvailable is missing.
    """
    sizes = {name: int(size) * 1024 for name, size in _MEMORY.findall(text)}
    if b"MemTotal" not in sizes or b"MemAvailable" not in sizes:
        raise ValueError("MemTotal or MemAvailable is missing")
    parts = tuple((part, sizes[name]) for name, part in _NAMES.items() if name in sizes)
    return Memory(sizes[b"MemTotal"], sizes[b"MemAvailable"], parts)


def pressure_totals(text: bytes) -> list[tuple[str, float]]:
    """(scope, stalled seconds) from one pressure file; totals are microseconds.

    Raises:
        ValueError: No line is a pressure line.
    """
    totals = {scope.decode(): int(total) / 1e6 for scope, total in _PRESSURE.findall(text)}
    if not totals:
        raise ValueError("there is no pressure total")
    return list(totals.items())
