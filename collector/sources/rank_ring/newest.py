"""Which rings are read where there are more than may be: living ranks first, then the last to go.

A pod that is killed leaves its ring on the node, where the collector may only read (DESIGN 3.6).
When a file was changed does not tell: stores through a mapping are no writes. Its heartbeat does.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from collector.clock import Clock
from collector.contract import ring
from collector.files import opened
from collector.reading import SourceError
from collector.sources.rank_ring.header import AHEAD_NS, check_size
from collector.sources.rank_ring.writers import FRESH_SECONDS

LOOKS = 128
"""Rings without a fresh heartbeat that are looked at again in one scan, in turn: a millisecond."""


class Newest:
    """Remembers heartbeats, so that a thousand rings of killed pods are not opened in every scan.

    A ring that is seen for the first time is looked at in the same scan. One that begins to beat
    again (a rank that was frozen, or started anew in its old place) is noticed within as many scans
    as there are LOOKS rings without a fresh heartbeat.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heartbeats: dict[Path, int] = {}
        """The ring that was looked at last comes last."""
        self._living: frozenset[Path] = frozenset()

    def lived(self, paths: Iterable[Path]) -> None:
        """Say whose processes lived in this scan; a frozen rank's heartbeat does not."""
        self._living = frozenset(paths)

    def of(self, paths: list[Path], count: int) -> list[Path]:
        """At most `count` of the rings, in the order of `paths`.

        All living ranks are alike: where they are too many, the same ones are read every time.
        """
        if len(paths) <= count:
            return paths
        now_ns = round(self._clock.monotonic() * 1e9)
        fresh_ns = now_ns - round(FRESH_SECONDS * 1e9)
        self._look(paths, fresh_ns, now_ns + AHEAD_NS)

        def last_sign_of_life(path: Path) -> int:
            heartbeat_ns = self._heartbeats[path]
            return now_ns if heartbeat_ns >= fresh_ns or path in self._living else heartbeat_ns

        chosen = set(sorted(paths, key=last_sign_of_life, reverse=True)[:count])
        return [path for path in paths if path in chosen]

    def _look(self, paths: list[Path], fresh_ns: int, latest_ns: int) -> None:
        listed = set(paths)
        known = {path: beat for path, beat in self._heartbeats.items() if path in listed}
        quiet = [path for path, beat in known.items() if beat < fresh_ns]
        waiting = set(quiet[LOOKS:])
        for path in paths:
            if path not in waiting:
                known.pop(path, None)  # to the end
                known[path] = _heartbeat_ns(path, latest_ns)
        self._heartbeats = known


def _heartbeat_ns(path: Path, latest_ns: int) -> int:
    """0 of what is no ring, or beats ahead of our clock: then it is of another boot."""
    try:
        with opened(path) as descriptor:
            check_size(descriptor)
            page = os.pread(descriptor, ring.HEARTBEAT_OFFSET + ring.HEARTBEAT.size, 0)
            if not page.startswith(ring.MAGIC):
                return 0
            heartbeat_ns: int = ring.HEARTBEAT.unpack_from(page, ring.HEARTBEAT_OFFSET)[0]
    except SourceError:
        return 0
    return heartbeat_ns if 0 < heartbeat_ns <= latest_ns else 0
