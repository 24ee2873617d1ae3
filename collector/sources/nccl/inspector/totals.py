"""Sums over Inspector's lines: by operation, and by rank with the time that it waited.

The wait is the rank's duration less the shortest of the same collective. One node knows the
shortest only where all ranks of the communicator are its own; across nodes the recording rules
compare ranks (docs/method/durations.md).
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import exp, log
from typing import NamedTuple

from lockstep.collector.contract.bandwidth import bus_factor
from lockstep.collector.contract.metrics import COLLECTIVE_BOUNDS, SIZE_BOUNDS, SIZE_BUCKETS
from lockstep.collector.formats.nccl_inspector import UNTOLD, Batch

MAX_OPERATIONS = 32
"""Operations by run and group that are exported: some 20 to 40 series each."""
WINDOW_SECONDS = 15.0
"""Bandwidths are means over so long: a usual scrape interval."""
IDLE_SECONDS = 600.0
"""An operation that was not met for so long is exported no more."""


@dataclass(frozen=True, slots=True)
class SizeTotals:
    """Operations of one range of sizes.

    Attributes:
        size: The range, a word of SIZE_BUCKETS.
        bytes: Sum of S.
        algorithm: Geometric mean of the window, bytes per second; None without an operation in it
            that had a peer.
        bus: The same of the bus bandwidth.
    """

    size: str
    count: int
    bytes: int
    algorithm: float | None
    bus: float | None


@dataclass(frozen=True, slots=True)
class OperationTotals:
    """One operation in one group of one run, over all its ranks on this node.

    Attributes:
        counts: By bucket of COLLECTIVE_BOUNDS and beyond, not cumulated.
        seconds: Sum of durations.
    """

    run: str
    group: str
    op: str
    counts: tuple[int, ...]
    seconds: float
    sizes: tuple[SizeTotals, ...]


class _Sums(NamedTuple):
    """Number of operations, and sums of logarithms: algorithm bandwidth, bus factor."""

    number: int = 0
    algorithm: float = 0.0
    factor: float = 0.0


NOTHING = _Sums()


@dataclass(slots=True)
class _Range:
    """Operations of one range of sizes."""

    count: int = 0
    bytes: int = 0
    fresh: _Sums = NOTHING
    """Since the last totals."""
    window: deque[tuple[float, _Sums]] = field(default_factory=deque)

    def add(self, sizes: list[int], seconds: list[float], factor: float | None) -> None:
        self.count += len(sizes)
        self.bytes += sum(sizes)
        if factor is not None:
            number, algorithm, factors = self.fresh
            self.fresh = _Sums(
                number + len(sizes),
                algorithm + sum(map(log, sizes)) - sum(map(log, seconds)),
                factors + len(sizes) * log(factor),
            )

    def totals(self, size: str, now: float) -> SizeTotals:
        if self.fresh.number:
            self.window.append((now, self.fresh))
            self.fresh = NOTHING
        while self.window and now - self.window[0][0] >= WINDOW_SECONDS:
            self.window.popleft()
        if not self.window:
            return SizeTotals(size, self.count, self.bytes, None, None)
        number, algorithm, factor = map(sum, zip(*(sums for _, sums in self.window), strict=True))
        return SizeTotals(
            size, self.count, self.bytes,
            exp(algorithm / number), exp((algorithm + factor) / number),
        )  # fmt: skip


@dataclass(slots=True)
class _Operation:
    counts: list[int]
    ranges: tuple[_Range, ...]
    seconds: float = 0.0
    met: bool = False
    """Since the last totals."""
    met_at: float = 0.0


class Tally:
    """Adds up collectives by run, group and operation."""

    def __init__(self) -> None:
        self._operations: dict[tuple[str, str, str], _Operation] = {}

    def add(self, run: str, batch: Batch) -> bool:
        """Count it; False if MAX_OPERATIONS others are counted already."""
        _, group, ranks, op, *_ = batch.operation
        operation = self._operations.get((run, group, op))
        if operation is None:
            if len(self._operations) >= MAX_OPERATIONS:
                return False
            operation = self._operations[run, group, op] = _Operation(
                [0] * (len(COLLECTIVE_BOUNDS) + 1), tuple(_Range() for _ in SIZE_BUCKETS)
            )
        operation.met = True
        operation.seconds += sum(batch.seconds)
        by_range: dict[int, tuple[list[int], list[float]]] = {}
        for size, seconds in zip(batch.sizes, batch.seconds, strict=True):
            operation.counts[bisect_left(COLLECTIVE_BOUNDS, seconds)] += 1
            sizes, durations = by_range.setdefault(bisect_right(SIZE_BOUNDS, size), ([], []))
            sizes.append(size)
            durations.append(seconds)
        factor = bus_factor(op, ranks) if ranks > 1 else None  # alone, nothing goes anywhere
        for index, (sizes, durations) in by_range.items():
            operation.ranges[index].add(sizes, durations, factor)
        return True

    def totals(self, now: float) -> tuple[OperationTotals, ...]:
        """Everything so far, by run, group and operation; closes what the window began with.

        Args:
            now: Monotonic seconds.
        """
        for key, totals in list(self._operations.items()):
            if totals.met:
                totals.met, totals.met_at = False, now
            elif now - totals.met_at >= IDLE_SECONDS:
                del self._operations[key]
        return tuple(
            OperationTotals(
                *key, tuple(totals.counts), totals.seconds, tuple(_size_totals(totals.ranges, now))
            )
            for key, totals in sorted(self._operations.items())
        )


def _size_totals(ranges: tuple[_Range, ...], now: float) -> Iterator[SizeTotals]:
    for name, sized in zip(SIZE_BUCKETS, ranges, strict=True):
        if sized.count:
            yield sized.totals(name, now)


MAX_RANKS = 256
"""Ranks by communicator that are exported: eight GPUs are in some ten communicators each."""
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
        communicator = self._communicators.get(identity)
        if communicator is None or rank not in communicator.ranks:
            if self._count >= MAX_RANKS:
                return False
            communicator = self._communicators.setdefault(identity, _Communicator(group, size))
            communicator.ranks[rank] = _Rank()
            self._count += 1
        communicator.met = True
        mine = communicator.ranks[rank]
        mine.run = mine.run or run
        mine.collectives += len(batch.seconds)
        mine.seconds += sum(batch.seconds)
        by_rank = communicator.pending.setdefault(op, {})
        waiting = by_rank.setdefault(rank, {})
        waiting.update(zip(batch.sequences, batch.seconds, strict=True))
        if len(by_rank) == communicator.size:
            _settle(communicator, by_rank)
        # What never comes must not be kept: its wait is not known, and in no sum.
        for sequence in list(waiting)[: max(0, len(waiting) - MAX_PENDING)]:
            del waiting[sequence]
        return True

    def totals(self, now: float) -> Iterator[RankTotals]:
        """Everything so far.

        Args:
            now: Monotonic seconds.
        """
        for identity, communicator in list(self._communicators.items()):
            if communicator.met:
                communicator.met, communicator.met_at = False, now
            elif now - communicator.met_at >= IDLE_SECONDS:
                del self._communicators[identity]
                self._count -= len(communicator.ranks)
                continue
            whole = len(communicator.ranks) == communicator.size
            if not whole:  # nobody here will ever know the shortest
                communicator.pending.clear()
            # Nodes may write into one folder. Each exports its own ranks, whose run it knows, and
            # where it knows none, of all.
            own = any(waits.run for waits in communicator.ranks.values())
            for rank, waits in sorted(communicator.ranks.items()):
                if own and not waits.run:
                    continue
                yield RankTotals(
                    waits.run, communicator.group, identity, rank, communicator.size,
                    waits.collectives, waits.seconds, waits.wait if whole else None,
                )  # fmt: skip


def _settle(communicator: _Communicator, by_rank: dict[int, dict[int, float]]) -> None:
    """Count the waits in what all ranks have told."""
    first, *others = by_rank.values()
    common = first.keys() & others[0].keys() if others else set(first)
    for other in others[1:]:
        common &= other.keys()
    if not common:
        return
    taken = {rank: [pending.pop(number) for number in common] for rank, pending in by_rank.items()}
    shortest = sum(map(min, zip(*taken.values(), strict=True)))
    for rank, seconds in taken.items():
        communicator.ranks[rank].wait += sum(seconds) - shortest
