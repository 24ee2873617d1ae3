"""How long each rank of a communicator was in collectives, and how much of it it waited.

The wait is the rank's duration less the shortest of the same collective. One node knows the
shortest only where all ranks of the communicator are its own; across nodes the recording rules
compare ranks (docs/method/durations.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from lockstep.collector.sources.nccl_inspector.lines import UNTOLD, Batch
from lockstep.collector.sources.nccl_inspector.tally import IDLE_SECONDS

MAX_RANKS = 256
"""Ranks by communicator that are told: eight GPUs are in some ten communicators each."""
MAX_PENDING = 4096
"""Collectives of one kind that wait for the other ranks of this node: four rings of Inspector."""


@dataclass(frozen=True, slots=True)
class RankTotals:
    """One rank in one communicator.

    Attributes:
        rank: In the communicator.
        size: Ranks of the communicator.
        collectives, seconds: All that were read.
        wait: Seconds; None where some rank of the communicator is not on this node.
    """

    run: str
    group: str
    communicator: str
    rank: int
    size: int
    collectives: int
    seconds: float
    wait: float | None


@dataclass(slots=True)
class _Rank:
    run: str = ""
    collectives: int = 0
    seconds: float = 0.0
    wait: float = 0.0


@dataclass(slots=True)
class _Communicator:
    group: str
    size: int
    ranks: dict[int, _Rank] = field(default_factory=dict)
    pending: dict[str, dict[int, dict[int, float]]] = field(default_factory=dict)
    """By operation and rank: sequence -> seconds."""
    met: bool = True
    met_at: float = 0.0


class RankWaits:
    """Adds up collectives by communicator and rank; sends and receives are left out."""

    def __init__(self) -> None:
        self._communicators: dict[str, _Communicator] = {}
        self._count = 0

    def add(self, run: str, batch: Batch) -> bool:
        """Count it; False if MAX_RANKS others are counted already."""
        identity, group, size, op, numbered, rank = batch.operation
        if not numbered or size < 2 or rank == UNTOLD:
            return True
        one = self._communicators.get(identity)
        if one is None or rank not in one.ranks:
            if self._count >= MAX_RANKS:
                return False
            one = self._communicators.setdefault(identity, _Communicator(group, size))
            one.ranks[rank] = _Rank()
            self._count += 1
        one.met = True
        mine = one.ranks[rank]
        mine.run = mine.run or run
        mine.collectives += len(batch.seconds)
        mine.seconds += sum(batch.seconds)
        by_rank = one.pending.setdefault(op, {})
        waiting = by_rank.setdefault(rank, {})
        waiting.update(zip(batch.sequences, batch.seconds, strict=True))
        if len(by_rank) == one.size:
            _settle(one, by_rank)
        # What never comes must not be kept: its wait is not known, and in no sum.
        for sequence in list(waiting)[: max(0, len(waiting) - MAX_PENDING)]:
            del waiting[sequence]
        return True

    def totals(self, now: float) -> Iterator[RankTotals]:
        """Everything so far.

        Args:
            now: Monotonic seconds.
        """
        for identity, one in list(self._communicators.items()):
            if one.met:
                one.met, one.met_at = False, now
            elif now - one.met_at >= IDLE_SECONDS:
                del self._communicators[identity]
                self._count -= len(one.ranks)
                continue
            whole = len(one.ranks) == one.size
            if not whole:  # nobody here will ever know the shortest
                one.pending.clear()
            # Nodes may write into one folder. Each tells of its own ranks, whose run it knows, and
            # where it knows none, of all.
            own = any(each.run for each in one.ranks.values())
            for rank, each in sorted(one.ranks.items()):
                if own and not each.run:
                    continue
                yield RankTotals(
                    each.run, one.group, identity, rank, one.size, each.collectives, each.seconds,
                    each.wait if whole else None,
                )  # fmt: skip


def _settle(one: _Communicator, by_rank: dict[int, dict[int, float]]) -> None:
    """Count the waits in what all ranks have told."""
    first, *others = by_rank.values()
    common = first.keys() & others[0].keys() if others else set(first)
    for each in others[1:]:
        common &= each.keys()
    if not common:
        return
    told = {rank: [each.pop(number) for number in common] for rank, each in by_rank.items()}
    shortest = sum(map(min, zip(*told.values(), strict=True)))
    for rank, seconds in told.items():
        one.ranks[rank].wait += sum(seconds) - shortest
