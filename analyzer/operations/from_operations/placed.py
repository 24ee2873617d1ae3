"""Suspects of the operations on the axes of the windows, and whether own time agrees.

A worker folds its tensor-parallel ranks, and an operation may hide a wait; own time is told by
every rank for itself and holds none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.operations.from_operations.observed import Observed, SlowWorker
from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid
from lockstep.analyzer.stats.peer_groups import MAJORITY
from lockstep.analyzer.stats.robust_stats import NOTHING, interval_95, median_of, shows
from lockstep.analyzer.stats.significance import STEPS_AT_LEAST, phase_shares
from lockstep.analyzer.stragglers.model.precision import WINDOWS
from lockstep.analyzer.stragglers.model.quick_steps import plainly_longer

DETECTOR = "operations"
Indices = NDArray[np.int64]


class Own(StrEnum):
    """What own time says of a suspect; `alone`: it grew, but there is no majority of peers.

    `noisy`: it grew, but many steps are no longer than those of peers, and no simulation says that
    the run waits for it.

    Of one or two replicas a worker's own past decides, and windows judge that more strictly: on
    busy processors two workers drift apart (measured: 3 of 12 healthy unpaced runs).
    """

    AGREES = "agrees"
    DIFFERS = "differs"
    ALONE = "alone"
    NOISY = "noisy"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Placed:
    """A slow worker of the operations among ranks and windows.

    Attributes:
        worker: As the operations tell it.
        rank: Of its ranks the one whose own time has the largest excess.
        columns: All ranks of the worker.
        finding: That it is slow.
        own: Whether own time grew as well.
    """

    worker: SlowWorker
    rank: int
    columns: Indices
    finding: Finding
    own: Own


def place_suspects(grid: Grid, seen: Observed, *, alone: bool = False) -> Iterator[Placed]:
    """Each slow worker that has ranks and windows here, and was slow for long enough.

    Who is slow from the first step with operations on was, for all that they tell, always slow.

    Args:
        grid: The run's windows.
        seen: What its operations show.
        alone: Whether the windows are told by the operations themselves, so that both agree.
    """
    usable = ~grid.masked & _last_attempt(grid)
    steps = grid.to_step - grid.from_step
    for one in seen.slow:
        place = one.suspect.dp, one.suspect.stage
        columns = np.array(
            [c for c, i in enumerate(grid.ranks) if (i.dp, i.pp) == place], dtype=np.int64
        )
        span, ended = grid.to_step > one.from_step, one.to_step is not None
        if one.to_step is not None:
            span &= grid.from_step < one.to_step
        inside, outside = np.flatnonzero(usable & span), np.flatnonzero(usable & ~span)
        always = not ended and one.from_step <= seen.trace.steps[0]
        if always or steps[outside].sum() < STEPS_AT_LEAST:
            outside = outside[:0]
        long = alone or WINDOWS.long_enough(
            float(steps[inside].sum()), float(steps[~grid.masked].sum()), ended=ended
        )
        if len(columns) and len(inside) and long:
            placed = _compared(grid, one, columns, inside, outside)
            yield replace(placed, own=Own.AGREES) if alone else placed


def _compared(
    grid: Grid, one: SlowWorker, columns: Indices, inside: Indices, outside: Indices
) -> Placed:
    own = np.log(grid.time["own"])
    chosen = [(column, *_peers(grid, column, columns)) for column in columns.tolist()]
    excess = [
        _excess(own, column, peers, inside, outside) if alike or len(outside) else np.nan
        for column, peers, alike in chosen
    ]
    best = int(np.argmax(np.nan_to_num(excess, nan=-np.inf)))
    column, peers, _ = chosen[best]
    told = Own.UNKNOWN
    if np.isfinite(excess[best]):
        many = len({info.dp for info in grid.ranks}) >= MAJORITY
        grew = shows(excess[best], one.suspect.excess)
        told = (Own.AGREES if many else Own.ALONE) if grew else Own.DIFFERS
        if told is Own.AGREES and one.fix is None:
            span = np.isin(np.arange(len(own)), inside)
            plain = plainly_longer(grid, np.array([column]), peers, span)
            told = Own.AGREES if plain else Own.NOISY
    finding = _finding(grid, one, column, peers, inside, outside)
    return Placed(one, grid.ranks[column].rank, columns, finding, told)


def _finding(
    grid: Grid, one: SlowWorker, column: int, peers: Indices, inside: Indices, outside: Indices
) -> Finding:
    rank, first, throughout = grid.ranks[column].rank, one.facts[0], not len(outside)
    low, slowdown, high = interval_95(one.suspect.excess, one.suspect.error)
    before = inside if throughout else outside
    return Finding(
        detector=DETECTOR,
        kind="slow",
        rank=rank,
        first=int(inside[0]),
        last=None if one.to_step is None else int(inside[-1]) + 1,
        slowdown=slowdown,
        interval=(low, high),
        score=one.suspect.excess / max(one.suspect.error, NOTHING),
        share=phase_shares(grid, column, peers, inside, before, throughout),
        text=f"rank {rank}: {first.text}",
        details={
            "peers": [grid.ranks[c].rank for c in peers],
            "from_start": throughout,
            "query": first.query,
            "place_confidence": one.place_confidence,
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
    excess = median_of(own[inside, column]) - median_of(own[np.ix_(inside, peers)])
    if len(outside):
        excess -= median_of(own[outside, column]) - median_of(own[np.ix_(outside, peers)])
    return excess


def _last_attempt(grid: Grid) -> NDArray[np.bool_]:
    """(W,) windows whose steps no later attempt ran again; operations are of the last one."""
    if not len(grid.from_step):
        return np.zeros(0, dtype=bool)
    later = np.minimum.accumulate(grid.from_step[::-1])[::-1]
    after = np.append(later[1:], np.iinfo(np.int64).max)
    last: NDArray[np.bool_] = grid.from_step < after
    return last
