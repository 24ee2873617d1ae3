"""Which rings are read where there are more than may be: living ranks first, owners in turn.

A pod that is killed leaves its ring on the node, where the collector may only read (DESIGN 3.6).
When a file was changed does not tell: stores through a mapping are no writes. Its heartbeat does.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from collector.clock import Clock
from collector.contract import ring
from collector.files import opened
from collector.reading import SourceError
from collector.sources.rank_ring.header import AHEAD_NS, check_size
from collector.sources.rank_ring.writers import FRESH_SECONDS

LOOKS = 128
"""Rings without a fresh heartbeat that are looked at again in one scan, in turn: a millisecond."""
FRESH_LOOKS = 512
"""Rings with a fresh heartbeat that are looked at again in one scan, in turn."""
MAX_KNOWN = 1 << 13
"""Rings that are remembered."""


class _Seen(NamedTuple):
    """A ring at its last look: its heartbeat, 0 if it has none, and whose file it is."""

    heartbeat_ns: int
    uid: int


class Newest:
    """Remembers heartbeats, so that a thousand rings of killed pods are not opened in every scan.

    A ring that is seen for the first time is looked at in the same scan. One that begins to beat
    again (a rank that was frozen, or started anew in its old place) is
    noticed within as many scans as there are LOOKS rings without a fresh heartbeat.

    Args:
        owner: Whose a ring is, by its path and the user of the file.

    Attributes:
        living_left_out: Rings with a fresh heartbeat that the last choice left out.
        quiet_left_out: Likewise, of rings without.
    """

    def __init__(self, clock: Clock, owner: Callable[[Path, int], str] = lambda *_: "") -> None:
        self._clock = clock
        self._owner = owner
        self._known: dict[Path, _Seen] = {}
        """The ring that was looked at last comes last."""
        self._living: frozenset[Path] = frozenset()
        self._since: dict[Path, int] = {}
        """Living rings, in the order in which they came."""
        self._number = 0
        self.living_left_out = self.quiet_left_out = 0

    def lived(self, paths: Iterable[Path]) -> None:
        """Say whose processes lived in this scan; a frozen rank's heartbeat does not."""
        self._living = frozenset(paths)
        self._number_them({*self._living, *(self._since.keys() & self._known)})

    def of(self, paths: list[Path], count: int, *, whole: bool = True) -> list[Path]:
        """At most `count` of the rings, in the order of their paths.

        All living ranks of an owner are alike: where they are too many, those that came first are
        read every time. Owners have their turn one after the other, so none pushes another out.

        Args:
            paths: Those found now.
            count: How many may be read.
            whole: There are no others; else those that were known before are among the choice.
        """
        self.living_left_out = self.quiet_left_out = 0
        if not whole:
            paths = sorted({*paths, *self._living, *self._known})
        if len(paths) <= count:
            if whole:
                self._known = {}
            return paths
        now_ns = round(self._clock.monotonic() * 1e9)
        fresh_ns = now_ns - round(FRESH_SECONDS * 1e9)
        self._look(paths, fresh_ns, now_ns + AHEAD_NS)
        known = self._known
        living = [
            path
            for path, seen in known.items()
            if path in self._living or seen.heartbeat_ns >= fresh_ns
        ]
        self._number_them(living)
        living.sort(key=self._since.__getitem__)
        quiet = sorted(
            known.keys() - self._since.keys(),
            key=lambda path: (-known[path].heartbeat_ns, path),
        )
        chosen = list(self._in_turn(living, count))
        self.living_left_out = len(living) - len(chosen)
        of_quiet = list(self._in_turn(quiet, count - len(chosen)))
        self.quiet_left_out = len(quiet) - len(of_quiet)
        return sorted([*chosen, *of_quiet])

    def _look(self, paths: Sequence[Path], fresh_ns: int, latest_ns: int) -> None:
        listed = set(paths)
        known = {path: seen for path, seen in self._known.items() if path in listed}
        new = [path for path in paths if path not in known]
        fresh = [path for path, seen in known.items() if seen.heartbeat_ns >= fresh_ns]
        quiet = [path for path, seen in known.items() if seen.heartbeat_ns < fresh_ns]
        for path in (*new, *fresh[:FRESH_LOOKS], *quiet[:LOOKS]):
            known.pop(path, None)  # to the end
            seen = _look(path, latest_ns)
            if seen is not None:
                known[path] = seen
        if len(known) > MAX_KNOWN:
            last = sorted(known, key=lambda path: (path in self._living, known[path].heartbeat_ns))
            for path in last[: len(known) - MAX_KNOWN]:
                del known[path]
        self._known = known

    def _number_them(self, living: Iterable[Path]) -> None:
        numbers: dict[Path, int] = {}
        for path in sorted(living):
            number = self._since.get(path)
            if number is None:
                self._number += 1
                number = self._number
            numbers[path] = number
        self._since = numbers

    def _in_turn(self, paths: Iterable[Path], count: int) -> Iterator[Path]:
        """At most so many, an owner after the other; those of one in the order given."""
        waiting: dict[str, deque[Path]] = {}
        for path in paths:
            waiting.setdefault(self._owner(path, self._known[path].uid), deque()).append(path)
        while waiting and count > 0:
            for owner in list(waiting)[:count]:
                yield waiting[owner].popleft()
                count -= 1
                if not waiting[owner]:
                    del waiting[owner]


def _look(path: Path, latest_ns: int) -> _Seen | None:
    """None if it is gone. No heartbeat has what is no ring, or what beats ahead of our clock."""
    uid = -1
    try:
        with opened(path) as descriptor:
            uid = os.fstat(descriptor).st_uid
            check_size(descriptor)
            page = os.pread(descriptor, ring.HEARTBEAT_OFFSET + ring.HEARTBEAT.size, 0)
            if not page.startswith(ring.MAGIC):
                return _Seen(0, uid)
            heartbeat_ns: int = ring.HEARTBEAT.unpack_from(page, ring.HEARTBEAT_OFFSET)[0]
    except SourceError as error:
        return None if error.reason == "missing" else _Seen(0, uid)
    return _Seen(heartbeat_ns if 0 < heartbeat_ns <= latest_ns else 0, uid)
