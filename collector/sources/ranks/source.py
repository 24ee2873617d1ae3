"""The ranks of this node, from their ring files: read with pread, never mapped, taken as hostile.

A mapped file that someone truncates kills the reader, and a reader that locks can block a rank;
pread does neither.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lockstep.collector.clock import Clock
from lockstep.collector.contract.metrics import RANK_GONE_SECONDS
from lockstep.collector.contract.words import LIVING_STATES
from lockstep.collector.files.opening import opened
from lockstep.collector.readings.source import Rejected, SourceError
from lockstep.collector.sources.ranks.header import Identity, check_size, read_header
from lockstep.collector.sources.ranks.owners import Rank, RankKey
from lockstep.collector.sources.ranks.rings import MAX_RINGS, Rings

# The last state of ranks whose rings were removed, which a run does at once when it ends.
#
# Between its last word and the removal lie milliseconds, between two readings a second. A file that
# is open can still be read once it has no name.


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


@dataclass(frozen=True, slots=True)
class RingReading:
    """All ranks of this node, by run and rank.

    Attributes:
        monotonic_ns: When it was read, for ages.
        rejected: Files that were left out.
        states: Number of rings by what became of them.
    """

    monotonic_ns: int
    ranks: tuple[Rank, ...]
    rejected: tuple[Rejected, ...]
    states: Mapping[str, int] = field(default_factory=dict)


class RankRings:
    """Source of RingReading. Remembers ranks that are gone for RANK_GONE_SECONDS."""

    name = "rank_ring"

    def __init__(
        self, lockstep_dir: Path, proc: Path, clock: Clock, rings: Rings | None = None
    ) -> None:
        self.rings = rings or Rings(lockstep_dir, proc, clock)
        self._clock = clock
        self._last_words = LastWords(clock)
        self._known: dict[RankKey, Rank] = {}
        self._gone_since: dict[RankKey, float] = {}

    def available(self) -> bool:
        """Whether there is, or lately was, a run on this node."""
        return bool(self._known) or self.rings.folder.is_dir()

    def memory(self) -> Any:
        """What this node's rings were known to be."""
        return self.rings.memory()

    def recall(self, tree: Any) -> None:
        """Go on with the owners that an earlier process of this boot knew.

        Raises:
            ValueError: It is not a memory of this source.
        """
        self.rings.recall(tree)

    def close(self) -> None:
        """Keep no ring open."""
        self._last_words.close()

    def read(self) -> RingReading:
        """Read every ring's header and ask the process table who still lives."""
        now = self._clock.monotonic()
        scan = self.rings.scan()
        ranks = {rank.key: rank for rank in scan.ranks}
        for key, rank in self._known.items():
            # Of a file that vanished or broke its last word tells whether its rank lives, else the
            # process table: where that cannot be seen, a heartbeat is fresh for seconds after.
            if key not in ranks:
                last = self._last_words.of(rank)
                ended = last.header.state not in LIVING_STATES
                if ended or not self.rings.writers.find(last.path, last.header)[0]:
                    # Once more: it may have said it, and ended, since.
                    ranks[key] = replace(self._last_words.of(last), up=False, pid=None)
        for key, rank in ranks.items():
            # Killed inside the guarded part: the reading before is the last whole one.
            if not rank.up and rank.header.live is None and key in self._known:
                ranks[key] = replace(self._known[key], up=False, pid=None)
        self._gone_since = {
            key: self._gone_since.get(
                key, now if key in self._known else _last_sign_of_life(rank, now)
            )
            for key, rank in ranks.items()
            if not rank.up
        }
        shown = {
            key: rank
            for key, rank in ranks.items()
            if rank.up or now - self._gone_since[key] < RANK_GONE_SECONDS
        }
        self._known = dict(list((self._known | shown).items())[-2 * MAX_RINGS :])
        for key in ranks.keys() - shown.keys():
            self._known.pop(key, None)
        self._last_words.keep(rank for rank in self._known.values() if rank.up)
        return RingReading(
            round(now * 1e9),
            tuple(shown[key] for key in sorted(shown)),
            scan.rejected,
            scan.states,
        )


def _last_sign_of_life(rank: Rank, now: float) -> float:
    """When a rank that was never seen alive went, in monotonic seconds: after its last heartbeat.

    A heartbeat in the future is of another boot and says nothing.
    """
    heartbeat = rank.header.heartbeat_ns / 1e9
    return heartbeat if 0 < heartbeat < now else now
