"""Which rings are read where there are more than may be: living ranks first, owners in turn.

A pod that is killed leaves its ring on the node, where the collector may only read
(docs/method/collecting.md). When a file was changed does not tell: stores through a mapping are no
writes. Its heartbeat does.
"""

import heapq
import os
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lockstep.collector.clock import Clock
from lockstep.collector.contract import ring
from lockstep.collector.files.opening import opened
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.ranks.header import AHEAD_NS, check_size
from lockstep.collector.sources.ranks.processes import FRESH_SECONDS

LOOKS = 128
"""Rings without a fresh heartbeat that are looked at again in one scan, in turn: a millisecond."""
FRESH_LOOKS = 512
"""Rings with a fresh heartbeat that are looked at again in one scan, in turn."""
NEW_LOOKS = 512
"""Rings that were never seen and are looked at in one scan, of one folder after the other."""
MAX_KNOWN = 1 << 12
"""Rings that are remembered."""


class _Seen(NamedTuple):
    """A ring at its last look: its heartbeat, 0 if it has none, and whose it is."""

    heartbeat_ns: int
    owner: str


class Newest:
    """Remembers heartbeats, so that a thousand rings of killed pods are not opened in every scan.

    A ring that is seen for the first time is looked at in the same scan; of more than NEW_LOOKS of
    them some that are drawn, so that nobody's names decide. One that begins to beat again (a rank
    that was frozen, or started anew in its old place) is noticed within as many scans as there are
    LOOKS rings without a fresh heartbeat. Paths are text here: thousands are compared.

    Args:
        owner: Whose a ring is, by its path and the user of the file.

    Attributes:
        living_left_out: Rings with a fresh heartbeat that the last choice left out.
        quiet_left_out: Likewise, of rings without, those not looked at yet among them.
    """

    def __init__(self, clock: Clock, owner: Callable[[Path, int], str] = lambda *_: "") -> None:
        self._clock = clock
        self._owner = owner
        self._known: dict[str, _Seen] = {}
        """The ring that was looked at last comes last."""
        self._living: frozenset[str] = frozenset()
        self._since: dict[str, int] = {}
        """Living rings, in the order in which they came."""
        self._number = 0
        self._dice = random.Random()  # noqa: S311 - no secret: it only must not stand still
        self.living_left_out = self.quiet_left_out = 0

    @property
    def living(self) -> frozenset[str]:
        """Whose processes lived in the last scan."""
        return self._living

    def lived(self, paths: Iterable[str]) -> None:
        """Say whose processes lived in this scan; a frozen rank's heartbeat does not."""
        self._living = frozenset(paths)
        self._number_them({*self._living, *(self._since.keys() & self._known)})

    def of(self, paths: Sequence[str], count: int, *, whole: bool = True) -> list[str]:
        """At most `count` of the rings, in the order of their paths.

        All living ranks of an owner are alike: where they are too many, those that came first are
        read every time. Owners have their turn one after the other, so none pushes another out.

        Args:
            paths: Those found now.
            count: How many may be read.
            whole: There are no others; else those that were known before are among the choice.
        """
        self.living_left_out = self.quiet_left_out = 0
        if whole and len(paths) <= count:
            self._known = {}
            return list(paths)
        if not whole and len(all_of_them := {*paths, *self._living, *self._known}) <= count:
            return sorted(all_of_them)
        now_ns = round(self._clock.monotonic() * 1e9)
        fresh_ns = now_ns - round(FRESH_SECONDS * 1e9)
        unseen = self._look(paths, fresh_ns, now_ns + AHEAD_NS, whole)
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
        chosen = list(_in_turn(living, self._owner_of, count))
        self.living_left_out = len(living) - len(chosen)
        of_quiet = list(_in_turn(quiet, self._owner_of, count - len(chosen)))
        self.quiet_left_out = len(quiet) - len(of_quiet) + unseen
        return sorted([*chosen, *of_quiet])

    def _look(self, paths: Sequence[str], fresh_ns: int, latest_ns: int, whole: bool) -> int:
        """Look at some; how many of the paths were never looked at."""
        known = self._known
        if whole:
            listed = set(paths)
            known = {path: seen for path, seen in known.items() if path in listed}
        new = [path for path in paths if path not in known]
        if not whole:
            new += self._living - known.keys() - set(new)
        first = self._some(new)
        fresh = [path for path, seen in known.items() if seen.heartbeat_ns >= fresh_ns]
        quiet = [path for path, seen in known.items() if seen.heartbeat_ns < fresh_ns]
        for path in (*first, *fresh[:FRESH_LOOKS], *quiet[:LOOKS]):
            known.pop(path, None)  # to the end
            seen = self._seen(Path(path), latest_ns)
            if seen is not None:
                known[path] = seen

        def missed(path: str) -> tuple[bool, int]:
            return path in self._living, known[path].heartbeat_ns

        for path in heapq.nsmallest(len(known) - MAX_KNOWN, known, key=missed):
            del known[path]
        self._known = known
        return len(new) - len(first)

    def _some(self, new: list[str]) -> list[str]:
        """At most NEW_LOOKS, drawn from one folder after the other; living ones before."""
        if len(new) <= NEW_LOOKS:
            return new
        known_living = [path for path in new if path in self._living]
        self._dice.shuffle(new)
        drawn = _in_turn(new, lambda path: path.rpartition("/")[0], NEW_LOOKS)
        return list(dict.fromkeys([*known_living, *drawn]))

    def _seen(self, path: Path, latest_ns: int) -> _Seen | None:
        """None if it is gone."""
        looked = _look(path, latest_ns)
        return None if looked is None else _Seen(looked[0], self._owner(path, looked[1]))

    def _number_them(self, living: Iterable[str]) -> None:
        numbers: dict[str, int] = {}
        for path in sorted(living):
            number = self._since.get(path)
            if number is None:
                self._number += 1
                number = self._number
            numbers[path] = number
        self._since = numbers

    def _owner_of(self, path: str) -> str:
        return self._known[path].owner


def _in_turn(paths: Iterable[str], of: Callable[[str], str], count: int) -> Iterator[str]:
    """At most so many, an owner after the other; those of one in the order given."""
    waiting: dict[str, deque[str]] = {}
    for path in paths:
        waiting.setdefault(of(path), deque()).append(path)
    while waiting and count > 0:
        for owner in list(waiting)[:count]:
            yield waiting[owner].popleft()
            count -= 1
            if not waiting[owner]:
                del waiting[owner]


def _look(path: Path, latest_ns: int) -> tuple[int, int] | None:
    """Its heartbeat and its user; None if it is gone.

    No heartbeat has what is no ring, or what beats ahead of our clock.
    """
    uid = -1
    try:
        with opened(path) as descriptor:
            uid = os.fstat(descriptor).st_uid
            check_size(descriptor)
            page = os.pread(descriptor, ring.HEARTBEAT_OFFSET + ring.HEARTBEAT.size, 0)
            if not page.startswith(ring.MAGIC):
                return 0, uid
            heartbeat_ns: int = ring.HEARTBEAT.unpack_from(page, ring.HEARTBEAT_OFFSET)[0]
    except SourceError as error:
        return None if error.reason == "missing" else (0, uid)
    return heartbeat_ns if 0 < heartbeat_ns <= latest_ns else 0, uid
