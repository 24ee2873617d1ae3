"""Which process of this node writes a ring: in a container a rank knows itself by another pid."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lockstep.collector.clock import Clock
from lockstep.collector.files.opening import read_bytes
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.ranks.header import AHEAD_NS, Header

FRESH_SECONDS = 3.0
"""A heartbeat (one a second) that is younger shows that its writer lives, wherever that is."""
EARLY_SECONDS = 3600.0
"""A process begins at most so long before the run that it says it is of."""
TICK = 0.1
"""The process table counts in ticks."""
SEARCH_SECONDS = 10.0
"""Between two looks through the whole process table, at most MAX_SEARCHES for one ring."""
MAX_SEARCHES = 3
MAX_PROCESSES = 1 << 15
MAX_RINGS = 256
"""Rings that are remembered."""
LIMIT = 64 * 1024
_GONE_STATES = frozenset(b"ZXx")
_INSIDE = re.compile(rb"^NSpid:\t[0-9]+(?:\t[0-9]+)*\t([0-9]{1,10})$", re.MULTILINE)
_POD_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


class Writer(NamedTuple):
    """A process: its pid in our process table, and when it began, in seconds since boot."""

    pid: int
    began: float


class _Ring(NamedTuple):
    """A ring of one attempt."""

    path: Path
    pid: int
    start_wall_ns: int


class Writers:
    """Finds the processes that write rings, and remembers them.

    The pid in a ring is the writer's own. Taken for one of this node, that of a rank in a container
    is some other process: so a process has to have begun when the rank did, to be of the rank's pod
    where the ring lies in that pod's folder (docs/sre/kubernetes.md), and to know itself by that
    pid.
    """

    def __init__(self, proc: Path, clock: Clock) -> None:
        self._proc = proc
        self._clock = clock
        self._known: dict[_Ring, Writer] = {}
        self._searches: dict[_Ring, int] = {}
        self._inside: dict[int, list[int]] = {}
        self._due = float("-inf")

    def find(self, path: Path, header: Header) -> tuple[bool, int | None]:
        """(whether the writer of this ring lives, its pid here; None if it is not visible here).

        Of a writer that is not visible only its heartbeat tells.

        Raises:
            SourceError: The process table cannot be read.
        """
        who = header.identity
        ring = _Ring(path, who.pid, who.start_wall_ns)
        writer = self._known.get(ring) or self._found(ring, header)
        if writer is None:
            age_ns = self._clock.monotonic() * 1e9 - header.heartbeat_ns
            return -AHEAD_NS <= age_ns < FRESH_SECONDS * 1e9, None
        process = self._process(writer.pid)
        lives = process is not None and process == (writer.began, True)
        return lives, writer.pid if lives else None

    def _found(self, ring: _Ring, header: Header) -> Writer | None:
        candidates = list(self._fitting([ring.pid], ring, header))
        if not candidates:
            candidates = list(self._fitting(self._known_inside_as(ring), ring, header))
        if len(candidates) != 1:  # of several, none is sure to be the rank
            return None
        self._known[ring] = candidates[0]
        self._searches.pop(ring, None)
        while len(self._known) > MAX_RINGS:
            del self._known[next(iter(self._known))]
        return candidates[0]

    def _fitting(self, pids: list[int], ring: _Ring, header: Header) -> Iterator[Writer]:
        """Those of the processes that can have written the ring."""
        who = header.identity
        start = (who.start_wall_ns - who.wall_minus_monotonic_ns) / 1e9
        earliest, latest = start - EARLY_SECONDS, max(start, header.heartbeat_ns / 1e9) + TICK
        for pid in pids:
            process = self._process(pid)
            if process is not None:
                began = process[0]
                # The table also counts the time that the machine slept.
                if earliest <= began <= latest + _slept() and self._is_of_pod(pid, ring.path):
                    yield Writer(pid, began)

    def _process(self, pid: int) -> tuple[float, bool] | None:
        """(seconds since boot at which it began, whether it is no zombie); None = no such process.

        Fields 22 and 3 of proc(5)'s stat. The name in front of them may hold anything.
        """
        path = self._proc / str(pid) / "stat"
        try:
            fields = read_bytes(path, LIMIT).rpartition(b")")[2].split()
        except SourceError as error:
            if error.reason == "missing":
                return None
            raise
        if len(fields) < 20 or not fields[19].isdigit():
            raise SourceError("malformed", f"{path} has no start time")
        return int(fields[19]) / os.sysconf("SC_CLK_TCK"), fields[0][0] not in _GONE_STATES

    def _is_of_pod(self, pid: int, path: Path) -> bool:
        uid = path.parent.name
        if not _POD_UID.fullmatch(uid):
            return True
        try:
            cgroups = read_bytes(self._proc / str(pid) / "cgroup", LIMIT)
        except SourceError:
            return False
        return uid.encode() in cgroups.replace(b"_", b"-")  # systemd writes it with _

    def _known_inside_as(self, ring: _Ring) -> list[int]:
        """Processes of pid namespaces below ours that know themselves by the ring's pid."""
        searches = self._searches.setdefault(ring, 0)
        if searches < MAX_SEARCHES and self._clock.monotonic() >= self._due:
            self._inside = self._search()
            self._due = self._clock.monotonic() + SEARCH_SECONDS
            self._searches = {search: count + 1 for search, count in self._searches.items()}
        while len(self._searches) > MAX_RINGS:
            del self._searches[next(iter(self._searches))]
        return self._inside.get(ring.pid, [])

    def _search(self) -> dict[int, list[int]]:
        pids: dict[int, list[int]] = {}
        try:
            names = os.listdir(self._proc)[:MAX_PROCESSES]
        except OSError as error:
            raise SourceError("io", f"{self._proc}: {error.strerror}") from error
        for name in names:
            if name.isdecimal():
                try:
                    status = read_bytes(self._proc / name / "status", LIMIT)
                except SourceError:
                    continue  # it has just ended
                if match := _INSIDE.search(status):
                    pids.setdefault(int(match[1]), []).append(int(name))
        return pids


def _slept() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
