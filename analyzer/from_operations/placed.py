"""Suspects of the operations on the axes of the windows, and whether own time agrees.

A worker folds its tensor-parallel ranks, and an operation may hide a wait; own time is told by
every rank for itself and holds none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from analyzer.model.precision import WINDOWS
from analyzer.run import Culprit, Finding, FloatGrid, Grid
from analyzer.slowness.peer_groups import MAJORITY
from analyzer.slowness.robust_stats import NOTHING, WITHIN, shows
from analyzer.slowness.significance import STEPS_AT_LEAST, phase_shares
from analyzer.slowness.transfers import median

DETECTOR = "operations"
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
        rank: Of its ranks the one whose own time has the largest excess.
        columns: All ranks of the worker.
        finding: That it is slow.
        own: Whether own time grew as well.
    """

    culprit: Culprit
    rank: int
    columns: Indices
    finding: Finding
    own: Own


def place_suspects(grid: Grid, culprits: tuple[Culprit, ...], first_step: int) -> Iterator[Placed]:
    """Each culprit that has ranks and windows here, and was slow for long enough.

    Args:
        grid: The run's windows.
        culprits: Of the operations.
        first_step: From which step on there are operations; who is slow from then on was, for
            all that they tell, always slow.
    """
    usable = ~grid.masked & _last_attempt(grid)
    steps = grid.to_step - grid.from_step
    for culprit in culprits:
        columns = np.array(
            [c for c, i in enumerate(grid.ranks) if (i.dp, i.pp) == (culprit.dp, culprit.pp)],
            dtype=np.int64,
        )
        begin = first_step if culprit.from_step is None else culprit.from_step
        span, ended = grid.to_step > begin, culprit.to_step is not None
        if culprit.to_step is not None:
            span &= grid.from_step < culprit.to_step
        inside, outside = np.flatnonzero(usable & span), np.flatnonzero(usable & ~span)
        if (not ended and begin <= first_step) or steps[outside].sum() < STEPS_AT_LEAST:
            outside = outside[:0]
        long = WINDOWS.long_enough(
            float(steps[inside].sum()), float(steps[~grid.masked].sum()), ended=ended
        )
        if len(columns) and len(inside) and long:
            yield _compared(grid, culprit, columns, inside, outside)


def _compared(
    grid: Grid, culprit: Culprit, columns: Indices, inside: Indices, outside: Indices
) -> Placed:
    own = np.log(grid.time["own"])
    chosen = [(column, *_peers(grid, column, columns)) for column in columns.tolist()]
    excess = [
        _excess(own, column, peers, inside, outside) if alike or len(outside) else np.nan
        for column, peers, alike in chosen
    ]
    best = int(np.argmax(np.nan_to_num(excess, nan=-np.inf)))
    column, peers, _ = chosen[best]
    shown, told = float(np.log(culprit.slowdown or 1.0)), Own.UNKNOWN
    if np.isfinite(excess[best]):
        many = len({info.dp for info in grid.ranks}) >= MAJORITY
        told = (Own.AGREES if many else Own.ALONE) if shows(excess[best], shown) else Own.DIFFERS
    finding = _finding(grid, culprit, column, peers, inside, outside)
    return Placed(culprit, grid.ranks[column].rank, columns, finding, told)


def _finding(
    grid: Grid, culprit: Culprit, column: int, peers: Indices, inside: Indices, outside: Indices
) -> Finding:
    rank, first = grid.ranks[column].rank, culprit.evidence[0]
    slowdown, throughout = culprit.slowdown or 1.0, not len(outside)
    low, high = culprit.slowdown_interval or (slowdown, slowdown)
    error = max(float(np.log(high / low)) / (2 * WITHIN), NOTHING)
    before = inside if throughout else outside
    return Finding(
        detector=DETECTOR,
        kind="slow",
        rank=rank,
        first=int(inside[0]),
        last=None if culprit.to_step is None else int(inside[-1]) + 1,
        slowdown=slowdown,
        interval=(low, high),
        score=float(np.log(slowdown)) / error,
        share=phase_shares(grid, column, peers, inside, before, throughout),
        text=f"rank {rank}: {first.text}",
        details={
            "peers": [grid.ranks[c].rank for c in peers],
            "from_start": throughout,
            "query": first.query,
        },
    )


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
