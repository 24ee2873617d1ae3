"""What the operations of a run add to its windows: suspects, among ranks and windows.

Windows hold all own time of every rank and decide first. Operations show who waits for whom, what
the same micro-batch took elsewhere, and what the run would take without a suspect. A foreign trace
has no other windows than its steps: its own operations fill them (`trace_grid`).

A worker folds its tensor-parallel ranks, and an operation may hide a wait. Own time is recorded by
every rank for itself and holds none, so it has to agree.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.operations.observe import Observed, SlowWorker, from_zero, observe
from lockstep.analyzer.operations.outliers import own_times, trace_cells
from lockstep.analyzer.read.optrace.load import BY_DESIGN, trace_of_run
from lockstep.analyzer.shapes.operations import Trace
from lockstep.analyzer.shapes.run import EXPECTED_STEPS, Finding, FloatGrid, Grid, LoadError, Run
from lockstep.analyzer.stats.coverage import unseen_words
from lockstep.analyzer.stats.peer_groups import MAJORITY, peer_groups
from lockstep.analyzer.stats.robust_stats import (
    NOTHING,
    interval_95,
    mean,
    median,
    median_of,
    shows,
)
from lockstep.analyzer.stats.significance import STEPS_AT_LEAST, phase_shares
from lockstep.analyzer.stragglers.model.adjusted_time import plainly_longer
from lockstep.analyzer.stragglers.model.precision import WINDOWS

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
    for worker in seen.slow:
        place = worker.suspect.dp, worker.suspect.stage
        columns = np.array(
            [c for c, i in enumerate(grid.ranks) if (i.dp, i.pp) == place], dtype=np.int64
        )
        span, ended = grid.to_step > worker.from_step, worker.to_step is not None
        if worker.to_step is not None:
            span &= grid.from_step < worker.to_step
        inside, outside = np.flatnonzero(usable & span), np.flatnonzero(usable & ~span)
        always = not ended and worker.from_step <= seen.trace.steps[0]
        if always or steps[outside].sum() < STEPS_AT_LEAST:
            outside = outside[:0]
        long = alone or WINDOWS.long_enough(
            float(steps[inside].sum()), float(steps[~grid.masked].sum()), ended=ended
        )
        if len(columns) and len(inside) and long:
            placed = _compared(grid, worker, columns, inside, outside)
            yield replace(placed, own=Own.AGREES) if alone else placed


def _compared(
    grid: Grid, worker: SlowWorker, columns: Indices, inside: Indices, outside: Indices
) -> Placed:
    own = np.log(grid.time["own"])
    chosen = [(column, *_peers(grid, column, columns)) for column in columns.tolist()]
    excess = [
        _excess(own, column, peers, inside, outside) if alike or len(outside) else np.nan
        for column, peers, alike in chosen
    ]
    best = int(np.argmax(np.nan_to_num(excess, nan=-np.inf)))
    column, peers, _ = chosen[best]
    agreement = Own.UNKNOWN
    if np.isfinite(excess[best]):
        many = len({info.dp for info in grid.ranks}) >= MAJORITY
        grew = shows(excess[best], worker.suspect.excess)
        agreement = (Own.AGREES if many else Own.ALONE) if grew else Own.DIFFERS
        if agreement is Own.AGREES and worker.fix is None:
            span = np.isin(np.arange(len(own)), inside)
            plain = plainly_longer(grid, np.array([column]), peers, span)
            agreement = Own.AGREES if plain else Own.NOISY
    finding = _finding(grid, worker, column, peers, inside, outside)
    return Placed(worker, grid.ranks[column].rank, columns, finding, agreement)


def _finding(
    grid: Grid, worker: SlowWorker, column: int, peers: Indices, inside: Indices, outside: Indices
) -> Finding:
    rank, first, throughout = grid.ranks[column].rank, worker.facts[0], not len(outside)
    low, slowdown, high = interval_95(worker.suspect.excess, worker.suspect.error)
    before = inside if throughout else outside
    return Finding(
        detector=DETECTOR,
        kind="slow",
        rank=rank,
        first=int(inside[0]),
        last=None if worker.to_step is None else int(inside[-1]) + 1,
        slowdown=slowdown,
        interval=(low, high),
        score=worker.suspect.excess / max(worker.suspect.error, NOTHING),
        share=phase_shares(grid, column, peers, inside, before, throughout),
        text=f"rank {rank}: {first.text}",
        details={
            "peers": [grid.ranks[c].rank for c in peers],
            "from_start": throughout,
            "query": first.query,
            "place_confidence": worker.place_confidence,
        },
    )


def _peers(grid: Grid, column: int, mine: Indices) -> tuple[Indices, bool]:
    """The ranks to compare a rank with, and whether they do the same work.

    Its peers outside the worker; without any all other ranks.
    """
    group = next((each for each in peer_groups(grid).values() if column in each), mine)
    peers = np.setdiff1d(group, mine)
    if len(peers):
        return peers, True
    return np.setdiff1d(np.arange(len(grid.ranks)), mine), False


def _excess(
    own: FloatGrid, column: int, peers: Indices, inside: Indices, outside: Indices
) -> float:
    """Log own time against the peers', in the span and against the rest of it; NaN = not known."""
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


def trace_grid(trace: Trace, run: Run) -> Grid:
    """The grid of a trace's steps and workers.

    Own time is what a worker computes, at the same work where micro-batches tell it. No step is
    known to be a warm-up, and nothing is known of waits and of hours.

    Args:
        trace: The operations.
        run: The same as windows (`to_run`).
    """
    grid, cells = align(run), trace_cells(trace)
    unknown = np.full_like(grid.time["wall"], np.nan)
    own = unknown
    if cells is not None:
        same, cancelled = own_times(cells, np.zeros(cells.usual.shape, dtype=bool))
        if cancelled:
            # A step may be longer for all.
            same = same + median(mean(cells.ratio, (0, 1)), (0, 1))
        level = np.median(cells.usual, axis=1)[:, None, None]
        seconds = np.exp(same) * np.where(level > 0, level, np.nan)
        own = np.column_stack([seconds[info.pp, info.dp] for info in grid.ranks])
    return replace(
        grid,
        time={**grid.time, "own": own, "collective": unknown},
        start=unknown[:, 0],
        end=unknown[:, 0],
        masked=np.zeros_like(grid.masked),
        coverage=trace.coverage * float(np.isfinite(own).mean()),
        missing=run.missing,
        meta={EXPECTED_STEPS: len(trace.steps) / trace.coverage},
    )


MOST_OPERATIONS = 2_000_000
"""Rows that are taken apart in some ten seconds; windows judge all steps in any case."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the operations say.

    Attributes:
        observed: What they show; None without operations that can be used.
        suspects: Who is slow by them, among ranks and windows, but for stalls of a few steps.
        whole: Whether all steps have operations that were used.
        missing: What was not used, or cannot be determined, in words.
        alone: Whether they are all there is.
    """

    observed: Observed | None = None
    suspects: tuple[Placed, ...] = ()
    whole: bool = True
    missing: tuple[str, ...] = ()
    alone: bool = False

    @property
    def simulated(self) -> bool:
        """Whether the simulation explains the run."""
        return self.observed is not None and self.observed.what_if["method"] == "simulation"

    @property
    def why_unknown(self) -> str | None:
        """Why operations that are all there is report nothing; None = they do."""
        return (
            self.observed.what_if.get("why") if self.alone and self.observed is not None else None
        )

    @property
    def suspected(self) -> bool:
        """Whether operations that are all there is show a worker that is slow by itself.

        Then not all became slower alike.
        """
        return self.alone and self.observed is not None and bool(self.observed.slow)

    @property
    def folded(self) -> bool:
        """Whether a rank stands for its tensor-parallel ones, which have no times of their own."""
        return self.alone and self.observed is not None and self.observed.trace.layout.tp > 1

    def of(self, grid: Grid, finding: Finding) -> Placed | None:
        """The suspect that a finding is about: one of its ranks, in some of its windows."""
        if finding.kind != "slow":
            return None
        inside = finding.inside(grid)
        for suspect in self.suspects:
            ranks = {grid.ranks[column].rank for column in suspect.columns}
            if finding.rank in ranks and (inside & suspect.finding.inside(grid)).any():
                return suspect
        return None


def examine_operations(run: Run, grid: Grid) -> Look:
    """Examines the operations of a run, where it has some."""
    if run.ops is None or run.ops.empty:
        return Look()
    latest, missing = _latest(_warm(run, grid))
    try:
        trace = from_zero(trace_of_run(latest))
    except LoadError as error:
        return Look(missing=(f"the operations are not used: {error}",))
    observed = observe(trace)
    suspects = tuple(place_suspects(grid, observed))
    if (dark := unseen_words(grid)) is not None:
        # Operations hold the waits that nobody timed: they make no structure and clear nobody.
        why = {"method": "none", "why": dark}
        observed = replace(observed, structures=(), rejected=(), what_if=why)
    words = tuple(f"operations: {words}" for words in trace.missing if BY_DESIGN not in words)
    return Look(observed, suspects, not missing and not words, (*missing, *words))


def examine_trace(trace: Trace, grid: Grid) -> Look:
    """Examines the operations that are all there is, of which the windows were made."""
    observed = observe(trace)
    suspects = tuple(place_suspects(grid, observed, alone=True))
    if not suspects and unseen_words(grid) is not None:
        observed = replace(observed, structures=(), rejected=())
    return Look(observed, suspects, missing=observed.missing, alone=True)


def confirmed_suspects(seen: Look) -> tuple[Placed, ...]:
    """The suspects whose own time grew as well."""
    return tuple(suspect for suspect in seen.suspects if suspect.own is Own.AGREES)


def _warm(run: Run, grid: Grid) -> Run:
    """The run without operations of its warm-up, also where no tag reports one."""
    assert run.ops is not None
    warm = grid.from_step[~grid.masked]
    if not len(warm):
        return run
    return replace(run, ops=run.ops[run.ops["step"] >= int(warm.min())])


def _latest(run: Run) -> tuple[Run, tuple[str, ...]]:
    """The run with the operations of its last steps, if all are too many."""
    assert run.ops is not None
    if len(run.ops) <= MOST_OPERATIONS:
        return run, ()
    count = run.ops["step"].value_counts().sort_index(ascending=False)
    kept = max(int((count.cumsum() <= MOST_OPERATIONS).sum()), 1)
    first = int(count.index[kept - 1])
    words = f"operations are used of the last {kept} of {len(count)} steps"
    return replace(run, ops=run.ops[run.ops["step"] >= first]), (words,)
