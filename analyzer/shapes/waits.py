"""Own time and waiting: when a step's own time is known, and the two formulas of a wait.

Of a step: the wait in blocking collectives is the wall time less the own time (`waited`; contract
TRAIN_OWN). Of one collective, from durations alone, with no clock compared: all ranks leave it
together, so `wait(rank) = duration(rank) - min over the ranks of duration` and the late rank has
the shortest duration (`waits`, `least`; docs/method/durations.md).

The own time of a step of a rank is known if and only if every collective that this rank was in
during the step was timed; else it includes the wait for others, and says nothing of who is slow. A
page counts those steps (contract TRAIN_KNOWN_STEPS) and sums own time over them only. So the own
time of a span is known where the known steps rose by as much as the steps, and nowhere without that
counter. `read.prometheus.questions.own_per_step` is the same rule in PromQL.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

Cells = TypeVar("Cells", Floats, "pd.Series[float]")
SLACK = 1e-9
"""Relative: what the arithmetic of rates loses. One step of a billion may be missing."""
SEND, RECEIVE = "send", "recv"
ALONE = -1
"""`Collectives.peer` of what is no transfer from rank to rank."""


def waited(wall: Cells, own: Cells) -> Cells:
    """Seconds that a rank waited in blocking collectives; NaN where own time is not known.

    Args:
        wall: Seconds of a step or window, any shape.
        own: Seconds of it outside blocking collectives.
    """
    return wall - own


def least(cells: Floats) -> Floats:
    """(W,) the least of (W, R) seconds in a collective; NaN where a rank is missing.

    It is the transfer itself: the last rank to arrive waits for nobody.
    """
    lowest: Floats = np.min(cells, axis=1, initial=np.inf)
    return np.where(np.isfinite(lowest), lowest, np.nan)


def all_known(known_steps: Floats, steps: Floats) -> NDArray[np.bool_]:
    """Whether own time is known of all steps of each span.

    Args:
        known_steps: Known steps of each span, any shape; NaN = nobody counts them.
        steps: All steps of it.
    """
    return np.asarray(known_steps >= (1.0 - SLACK) * steps)


def own_each(own: Floats, steps: Floats, known_steps: Floats) -> Floats:
    """(T - 1, R) own seconds a step between two looks at counters; NaN where it is not known.

    Args:
        own: (T, R) own seconds so far; NaN = nothing was reported.
        steps: (T, R) steps so far.
        known_steps: (T, R) steps so far of which own time is known.
    """
    rise, per, known = (np.diff(cells, axis=0) for cells in (own, steps, known_steps))
    # A counter that fell began anew: its rise is not known.
    there = (rise >= 0) & (per > 0) & all_known(known, per)
    found: Floats = np.divide(rise, per, out=np.full(rise.shape, np.nan), where=there)
    return found


@dataclass(frozen=True, slots=True)
class Communicator:
    """Ranks that communicate: one start of one process group.

    Attributes:
        identity: Its id, another one at every start.
        name: Of its group, or empty; several communicators may share one.
        size: How many ranks it has.
    """

    identity: str
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Process:
    """A process that recorded its collectives."""

    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class Collectives:
    """Timed collectives and transfers, N rows in the order in which each process reported them.

    Attributes:
        process: (N,) place in `processes`.
        communicator: (N,) place in `communicators`.
        rank: (N,) the process's rank in the communicator.
        op: (N,) place in `ops`.
        sequence: (N,) number among the communicator's operations of this kind; of transfers, among
            the transfers of this rank in the communicator.
        peer: (N,) of a send or receive the other's rank in the communicator, else ALONE.
        bytes: (N,) payload.
        seconds: (N,) from arrival to completion; NaN = not timed.
        time: (N,) unix seconds by the process's own clock, when it was reported; NaN = not known.
        means: (N,) what the duration was taken with; durations by different means do not compare.
        processes, communicators, ops: What the numbers stand for.
        counted: (N,) number by which it is seen what is missing: of collectives among those of the
            same kind, of transfers among all, of this rank in the communicator.
        together: Whether `counted` goes over everything in a communicator instead.
    """

    process: Ints
    communicator: Ints
    rank: Ints
    op: Ints
    sequence: Ints
    peer: Ints
    bytes: Ints
    seconds: Floats
    time: Floats
    means: Ints
    processes: tuple[Process, ...]
    communicators: tuple[Communicator, ...]
    ops: tuple[str, ...]
    counted: Ints
    together: bool = False

    def __len__(self) -> int:
        return len(self.process)

    def of(self, rows: Flags | Ints) -> "Collectives":
        """Some of the rows."""
        return Collectives(
            self.process[rows], self.communicator[rows], self.rank[rows], self.op[rows],
            self.sequence[rows], self.peer[rows], self.bytes[rows], self.seconds[rows],
            self.time[rows], self.means[rows], self.processes, self.communicators, self.ops,
            self.counted[rows], self.together,
        )  # fmt: skip

    @property
    def transfers(self) -> Flags:
        """(N,) sends and receives."""
        told: Flags = self.peer != ALONE
        return told


@dataclass(frozen=True, slots=True)
class Waits:
    """What every row waited.

    Attributes:
        seconds: (N,) duration less the shortest of the same collective; NaN = not known: a rank of
            it did not report, reported it twice, or took its duration by other means.
        least: (N,) that shortest duration; NaN alike.
        twice: (N,) rows that repeat another of the same rank and collective, word for word.
    """

    seconds: Floats
    least: Floats
    twice: Flags


def waits(collectives: Collectives) -> Waits:
    """The wait of each rank in each collective of which every rank reported a duration.

    A collective is (communicator, operation, sequence). Of a transfer both sides are its ranks: the
    n-th send to a peer is that peer's n-th receive, which is known only where neither side lacks a
    number. Files that hold the same row again count once.
    """
    members = np.where(
        collectives.transfers, 2,
        np.array([communicator.size for communicator in collectives.communicators], np.int64)
        [collectives.communicator] if len(collectives) else 0,
    )  # fmt: skip
    keys, known = _instances(collectives)
    order = np.lexsort((collectives.rank, *keys[::-1]))
    same = np.ones(len(collectives), dtype=bool)
    if len(collectives):
        same[0] = False
    for key in keys:
        same[1:] &= key[order][1:] == key[order][:-1]
    again = (
        same
        & np.append(False, collectives.rank[order][1:] == collectives.rank[order][:-1])[
            : len(collectives)
        ]
    )
    alike = again.copy()
    for column in (collectives.seconds, collectives.bytes, collectives.process):
        values = column[order]
        alike[1:] &= (values[1:] == values[:-1]) | (values[1:] != values[1:])
    kept = order[~alike]
    first = ~same[~alike]
    twice = np.zeros(len(collectives), dtype=bool)
    twice[order[alike]] = True
    seconds, least = np.full(len(collectives), np.nan), np.full(len(collectives), np.nan)
    if len(kept):
        begins = np.flatnonzero(first)
        counts = np.diff(np.append(begins, len(kept)))
        clash = np.logical_or.reduceat(again[~alike], begins)
        durations = collectives.seconds[kept]
        shortest = np.minimum.reduceat(durations, begins)
        means = collectives.means[kept]
        mixed = np.minimum.reduceat(means, begins) != np.maximum.reduceat(means, begins)
        whole = (counts == members[kept][begins]) & ~clash & ~mixed
        whole &= np.logical_and.reduceat(known[kept], begins)
        shortest = np.repeat(np.where(whole, shortest, np.nan), counts)
        least[kept] = shortest
        seconds[kept] = durations - shortest
    return Waits(seconds, least, twice)


def _instances(collectives: Collectives) -> tuple[list[Ints], Flags]:
    """Columns that are equal for the ranks of one collective, and which rows have such."""
    transfer = collectives.transfers
    receives = collectives.op == (
        collectives.ops.index(RECEIVE) if RECEIVE in collectives.ops else -1
    )
    source = np.where(receives, collectives.peer, collectives.rank)
    target = np.where(receives, collectives.rank, collectives.peer)
    number, known = _ordinals(collectives)
    keys = [
        collectives.communicator,
        np.where(transfer, -1, collectives.op),
        np.where(transfer, source, -1),
        np.where(transfer, target, -1),
        np.where(transfer, number, collectives.sequence),
    ]
    return keys, known | ~transfer


def _ordinals(collectives: Collectives) -> tuple[Ints, Flags]:
    """(N,) number of each transfer among those of its side with its peer, and whether it is sure.

    Not so behind a number that is missing: what was not reported may have gone to any peer.
    """
    number, known = np.zeros(len(collectives), np.int64), np.ones(len(collectives), dtype=bool)
    rows = np.flatnonzero(collectives.transfers)
    if not len(rows):
        return number, known
    mine = collectives.of(rows)
    order = np.lexsort((mine.sequence, mine.rank, mine.communicator))
    side = np.append(True, (np.diff(mine.communicator[order]) != 0)
                     | (np.diff(mine.rank[order]) != 0))  # fmt: skip
    step = np.append(0, np.diff(mine.sequence[order]))
    begins = np.flatnonzero(side)
    gap = np.where(side, mine.sequence[order] > 1, step > 1)
    gaps = np.cumsum(gap)
    known[rows[order]] = gaps - np.repeat(gaps[begins] - gap[begins],
                                          np.diff(np.append(begins, len(rows)))) == 0  # fmt: skip
    order = np.lexsort((mine.sequence, mine.op, mine.peer, mine.rank, mine.communicator))
    new = np.ones(len(rows), dtype=bool)
    columns = [one[order] for one in (mine.communicator, mine.rank, mine.peer, mine.op)]
    new[1:] = np.logical_or.reduce([one[1:] != one[:-1] for one in columns])
    # A row that is reported again has the number of the first.
    fresh = new | np.append(True, np.diff(mine.sequence[order]) != 0)
    count = np.cumsum(fresh)
    begins = np.flatnonzero(new)
    number[rows[order]] = count - np.repeat(count[begins], np.diff(np.append(begins, len(rows))))
    return number, known


@dataclass(frozen=True, slots=True)
class Matrix:
    """Transfers from rank to rank of one communicator; rows are sources, columns destinations.

    Attributes:
        communicator: Which.
        count, bytes: How many were reported by both sides, and what they carried.
        seconds: Time of the shorter side: the transfer itself.
        source_waits, target_waits: Seconds that the one waited for the other.
    """

    communicator: Communicator
    count: Ints
    bytes: Ints
    seconds: Floats
    source_waits: Floats
    target_waits: Floats


MOST_CELLS = 1 << 22
"""Of a matrix: 2,048 ranks."""


def matrices(collectives: Collectives, waited: Waits) -> tuple[Matrix, ...]:
    """Source by destination, of each communicator with transfers that both sides reported."""
    by_communicator = []
    usable = collectives.transfers & np.isfinite(waited.seconds) & ~waited.twice
    receives = collectives.op == (
        collectives.ops.index(RECEIVE) if RECEIVE in collectives.ops else -1
    )
    for number in np.unique(collectives.communicator[usable]).tolist():
        communicator = collectives.communicators[number]
        if communicator.size**2 > MOST_CELLS:
            continue
        rows = np.flatnonzero(usable & (collectives.communicator == number))
        source = np.where(receives, collectives.peer, collectives.rank)[rows]
        target = np.where(receives, collectives.rank, collectives.peer)[rows]
        cell, side = source * communicator.size + target, receives[rows]

        def summed(
            values: Floats, which: Flags, cell: Ints = cell, size: int = communicator.size
        ) -> Floats:
            made = np.bincount(cell[which], values[which], size**2).astype(np.float64)
            return made.reshape(size, size)

        by_communicator.append(
            Matrix(
                communicator,
                summed(np.ones(len(rows)), side).astype(np.int64),
                summed(collectives.bytes[rows].astype(float), side).astype(np.int64),
                summed(waited.least[rows], side),
                summed(waited.seconds[rows], ~side),
                summed(waited.seconds[rows], side),
            )
        )
    return tuple(by_communicator)
