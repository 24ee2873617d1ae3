"""Suspects of the operations on the axes of the windows, and whether own time agrees.

A worker folds its tensor-parallel ranks, and an operation may hide a wait; own time is told by
every rank for itself and holds none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Culprit, FloatGrid, Grid
from analyzer.slowness.peer_groups import MAJORITY
from analyzer.slowness.significance import STEPS_AT_LEAST
from analyzer.slowness.transfers import median

CONFIRMED = 0.5
"""Share of the excess of its operations that a suspect's own time must show."""
Indices = NDArray[np.int64]


class Own(StrEnum):
    """What own time says of a suspect; `alone`: it grew, but there is no majority of peers.

    Of one or two replicas a worker's own past decides, and windows judge that more strictly: on
    busy processors two workers drift apart (measured: 3 of 12 healthy unpaced runs).
    """

    AGREES = "agrees"
    DIFFERS = "differs"
    ALONE = "alone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Placed:
    """A suspect of the operations among ranks and windows.

    Attributes:
        culprit: As the operations name it.
        column: Of the worker's ranks the one whose own time has the largest excess.
        columns: All ranks of the worker.
        peers: The ranks it is compared with: of its stage, else all others.
        inside: Windows in which it is slow.
        outside: Windows before and after; none where it was slow in all that is seen.
        own: Whether own time grew as well.
    """

    culprit: Culprit
    column: int
    columns: Indices
    peers: Indices
    inside: Indices
    outside: Indices
    own: Own

    @property
    def throughout(self) -> bool:
        """Whether it was slow in all steps seen."""
        return not len(self.outside)


def place_suspects(grid: Grid, culprits: tuple[Culprit, ...], first_step: int) -> Iterator[Placed]:
    """Each culprit that has ranks and windows here.

    Args:
        grid: The run's windows.
        culprits: Of the operations.
        first_step: From which step on there are operations; who is slow from then on was, for
            all that they tell, always slow.
    """
    usable = ~grid.masked & _last_attempt(grid)
    own = np.log(grid.time["own"])
    for culprit in culprits:
        columns = np.array(
            [c for c, i in enumerate(grid.ranks) if (i.dp, i.pp) == (culprit.dp, culprit.pp)],
            dtype=np.int64,
        )
        begin = first_step if culprit.from_step is None else culprit.from_step
        span = grid.to_step > begin
        if culprit.to_step is not None:
            span &= grid.from_step < culprit.to_step
        inside, outside = np.flatnonzero(usable & span), np.flatnonzero(usable & ~span)
        always = culprit.to_step is None and begin <= first_step
        steps = grid.to_step - grid.from_step
        if always or steps[outside].sum() < STEPS_AT_LEAST:
            outside = outside[:0]
        if len(columns) and len(inside):
            yield _compared(grid, own, culprit, columns, inside, outside)


def _compared(
    grid: Grid, own: FloatGrid, culprit: Culprit, columns: Indices, inside: Indices,
    outside: Indices,
) -> Placed:  # fmt: skip
    chosen = [(column, _peers(grid, column, columns)) for column in columns.tolist()]
    excess = [
        _excess(own, column, peers, inside, outside) if alike or len(outside) else np.nan
        for column, (peers, alike) in chosen
    ]
    best = int(np.argmax(np.nan_to_num(excess, nan=-np.inf)))
    asked = CONFIRMED * float(np.log(culprit.slowdown or 1.0))
    told = Own.UNKNOWN
    if np.isfinite(excess[best]):
        many = len({info.dp for info in grid.ranks}) >= MAJORITY
        told = (Own.AGREES if many else Own.ALONE) if excess[best] >= asked else Own.DIFFERS
    column, (peers, _) = chosen[best]
    return Placed(culprit, column, columns, peers, inside, outside, told)


def _peers(grid: Grid, column: int, mine: Indices) -> tuple[Indices, bool]:
    """The ranks to compare a rank with, and whether they must behave alike."""
    info = grid.ranks[column]
    others = [c for c in range(len(grid.ranks)) if c not in mine]
    stage = [c for c in others if grid.ranks[c].pp == info.pp]
    same = [c for c in stage if grid.ranks[c].tp == info.tp]
    return np.array(same or stage or others, dtype=np.int64), bool(stage)


def _excess(
    own: FloatGrid, column: int, peers: Indices, inside: Indices, outside: Indices
) -> float:
    """Log own time against the peers', in the span and against the rest of it; NaN = not told."""
    excess = median(own[inside, column]) - median(own[np.ix_(inside, peers)])
    if len(outside):
        excess -= median(own[outside, column]) - median(own[np.ix_(outside, peers)])
    return excess


def _last_attempt(grid: Grid) -> NDArray[np.bool_]:
    """(W,) windows whose steps no later attempt ran again; operations are of the last one."""
    if not len(grid.from_step):
        return np.zeros(0, dtype=bool)
    later = np.minimum.accumulate(grid.from_step[::-1])[::-1]
    after = np.append(later[1:], np.iinfo(np.int64).max)
    last: NDArray[np.bool_] = grid.from_step < after
    return last
