"""What the lines add up to: counts by operation, and the bandwidths of late."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import exp, log
from typing import NamedTuple

from lockstep.collector.contract.bandwidth import bus_factor
from lockstep.collector.contract.metrics import COLLECTIVE_BOUNDS, SIZE_BOUNDS, SIZE_BUCKETS
from lockstep.collector.sources.nccl_inspector.lines import Batch

MAX_OPERATIONS = 32
"""Operations by run and group that are told: some 20 to 40 series each."""
WINDOW_SECONDS = 15.0
"""Bandwidths are means over so long: a usual scrape interval."""
IDLE_SECONDS = 600.0
"""An operation that was not met for so long is told no more."""


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
        for key, one in list(self._operations.items()):
            if one.met:
                one.met, one.met_at = False, now
            elif now - one.met_at >= IDLE_SECONDS:
                del self._operations[key]
        return tuple(
            OperationTotals(
                *key, tuple(one.counts), one.seconds, tuple(_size_totals(one.ranges, now))
            )
            for key, one in sorted(self._operations.items())
        )


def _size_totals(ranges: tuple[_Range, ...], now: float) -> Iterator[SizeTotals]:
    for name, one in zip(SIZE_BUCKETS, ranges, strict=True):
        if one.count:
            yield one.totals(name, now)
