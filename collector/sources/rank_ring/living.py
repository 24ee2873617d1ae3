"""The living ranks of this node, for the sources that look at their processes; one scan for all."""

from lockstep.collector.sources.rank_ring.rank import Rank
from lockstep.collector.sources.rank_ring.scanning import Rings, Scan

FRESH_SECONDS = 0.5
"""A scan serves all who ask within so long; whose rank has ended meanwhile finds no process."""


class LivingRanks:
    """Ranks whose processes live, as of the last half second."""

    def __init__(self, rings: Rings) -> None:
        self._rings = rings
        self._found: tuple[Scan | None, tuple[Rank, ...]] = (None, ())

    def __call__(self) -> tuple[Rank, ...]:
        """The living ranks; those who ask at the same time share one scan, and the tuple."""
        scan, ranks = self._found
        now = self._rings.scan(FRESH_SECONDS)
        if now is not scan:
            ranks = tuple(rank for rank in now.ranks if rank.up)
            self._found = now, ranks
        return ranks
