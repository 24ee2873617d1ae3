"""The living ranks of this node, for the sources that look at their processes; one scan for all."""

import threading
from pathlib import Path

from collector.clock import Clock
from collector.sources.rank_ring import Rank, scan
from collector.sources.rank_ring.newest import Newest
from collector.sources.rank_ring.writers import Writers

FRESH_SECONDS = 0.5
"""A scan serves all who ask within so long; whose rank has ended meanwhile finds no process."""


class LivingRanks:
    """Ranks whose processes live, as of the last half second."""

    def __init__(self, lockstep_dir: Path, proc: Path, clock: Clock) -> None:
        self._place = (lockstep_dir, proc, clock, Writers(proc, clock), Newest(clock))
        self._clock = clock
        self._lock = threading.Lock()
        self._scanned: float | None = None
        self._ranks: tuple[Rank, ...] = ()

    def __call__(self) -> tuple[Rank, ...]:
        """The living ranks; those who ask at the same time share one scan."""
        with self._lock:
            now = self._clock.monotonic()
            if self._scanned is None or not 0 <= now - self._scanned < FRESH_SECONDS:
                ranks, _ = scan(*self._place)
                self._ranks = tuple(rank for rank in ranks if rank.up)
                self._scanned = now
            return self._ranks
