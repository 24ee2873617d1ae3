"""What ranks said last whose rings were removed: a run that ends removes them at once.

Between its last word and the removal lie milliseconds, between two readings a second. A file that
is open can still be read once it has no name.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from lockstep.collector.clock import Clock
from lockstep.collector.files import opened
from lockstep.collector.reading import SourceError
from lockstep.collector.sources.rank_ring.header import Identity, check_size, read_header
from lockstep.collector.sources.rank_ring.rank import Rank


class LastWords:
    """Keeps the rings of living ranks open, one descriptor each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[Identity, int] = {}

    def of(self, rank: Rank) -> Rank:
        """The rank, with what its ring says now, whether it still has a name or not.

        As it was where it was not kept open, or is no ring of this rank any more.
        """
        descriptor = self._open.get(rank.header.identity)
        if descriptor is None:
            return rank
        with suppress(SourceError, OSError):
            check_size(descriptor)
            header = read_header(descriptor, self._clock)
            if header.identity == rank.header.identity and header.live is not None:
                return replace(rank, header=header)
        return rank

    def keep(self, ranks: Iterable[Rank]) -> None:
        """Keep the rings of these open, and no others."""
        wanted = {rank.header.identity: rank.path for rank in ranks}
        for identity in self._open.keys() - wanted.keys():
            os.close(self._open.pop(identity))
        for identity, path in wanted.items():
            if identity not in self._open:
                with suppress(SourceError, OSError), opened(path) as descriptor:
                    self._open[identity] = os.dup(descriptor)

    def close(self) -> None:
        """Keep none open."""
        self.keep(())

    def __del__(self) -> None:
        self.close()
