"""Own time of every rank and window: the window less the rank's waits in it.

And less what its transfers took longer than they usually do: that is the group's, not the rank's.
What they usually take stays in it, since nobody knows how much of it was beside computation.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from lockstep.analyzer.read.collectives.job import Job
from lockstep.analyzer.read.collectives.steps import Steps
from lockstep.analyzer.shapes.waits import Floats, Ints, Waits
from lockstep.analyzer.shapes.windows import COLUMNS

KNOWN_SHARE = 0.9
"""Share of a rank's collectives in a window whose wait must be known for its own time to be: what
is not known counts as own time, and a tenth is what may stay unexplained (docs/method)."""
MAX_GAP = 1_000_000
"""Numbers farther apart are of a damaged line, or NCCL has begun anew."""


@dataclass(frozen=True, slots=True)
class WindowSums:
    """What the collectives of a job say of its windows, (W, R) by window and rank.

    Attributes:
        wall: (W,) seconds, the median over the ranks' own clocks; NaN = no times.
        end: (W,) unix seconds.
        wait, least, seconds: What each rank waited, what the transfers took when nobody waited any
            more, and both together; of the collectives whose wait is known.
        known: Share of its collectives whose wait is known; NaN = none was reported.
    """

    first: int
    wall: Floats
    end: Floats
    wait: Floats
    least: Floats
    seconds: Floats
    known: Floats


def told_windows(job: Job, waited: Waits, steps: Steps) -> WindowSums:
    """Sums over the rows of each window and rank."""
    collectives, shape = job.collectives, (len(steps.ends), len(job.ranks))
    inside = (steps.window >= steps.first) & ~waited.twice
    cell = (steps.window - steps.first) * shape[1] + job.column[collectives.process]

    def summed(values: Floats, rows: Ints) -> Floats:
        made = np.bincount(cell[rows], values[rows], shape[0] * shape[1]).astype(np.float64)
        return made.reshape(shape)

    rows, sure = np.flatnonzero(inside), np.flatnonzero(inside & np.isfinite(waited.seconds))
    stands_for = _stands_for(job, waited)
    with np.errstate(invalid="ignore"):
        known = summed(np.ones(len(collectives)), sure) / summed(stands_for, rows)
        ends = steps.ends[:, job.column >= 0]
        wall = _middle(np.diff(ends, axis=0, prepend=np.nan))
    return WindowSums(
        steps.first, wall, _middle(ends), summed(waited.seconds, sure), summed(waited.least, sure),
        summed(collectives.seconds, sure), known,
    )  # fmt: skip


def frame(sums: WindowSums, ranks: Ints) -> pd.DataFrame:
    """`Run.windows`; own time is NaN where more than a tenth of a rank's waits is not known.

    Args:
        sums: The windows.
        ranks: (R,) numbers of the ranks.
    """
    # Half of what came before the first end, and what came behind the last, is not reported.
    windows = np.flatnonzero(np.isfinite(sums.wall) & (sums.wall > 0))
    if not len(windows):
        return pd.DataFrame(columns=list(COLUMNS))
    shape = (len(windows), len(ranks))
    wall = np.broadcast_to(sums.wall[windows, None], shape)
    sure = sums.known[windows] >= KNOWN_SHARE
    least = np.where(sure, sums.least[windows], np.nan)
    longer = least - _middle(least.T)
    own = np.where(sure, wall - sums.wait[windows] - longer, np.nan)
    there = np.isfinite(sums.known[windows]).ravel()
    columns = {
        "rank": np.broadcast_to(ranks, shape),
        "attempt": np.zeros(shape, np.int64),
        "from_step": np.broadcast_to((windows + sums.first)[:, None], shape),
        "to_step": np.broadcast_to((windows + sums.first + 1)[:, None], shape),
        "start": np.broadcast_to((sums.end - sums.wall)[windows, None], shape),
        "end": np.broadcast_to(sums.end[windows, None], shape),
        "steps": np.ones(shape, np.int64),
        "wall_seconds": wall,
        "own_seconds": np.where(own > 0, own, np.nan),
        "collective_seconds": np.minimum(sums.seconds[windows], wall),
    }
    made = pd.DataFrame({name: values.ravel()[there] for name, values in columns.items()})
    return made.assign(tags="").reindex(columns=list(COLUMNS))


def _stands_for(job: Job, waited: Waits) -> Floats:
    """(N,) numbers from the last row of the same kind of the same rank up to each row."""
    collectives = job.collectives
    rows = np.flatnonzero(~waited.twice)
    op = (
        np.zeros_like(collectives.op)
        if collectives.together
        else np.where(collectives.transfers, -1, collectives.op)
    )[rows]
    order = np.lexsort(
        (collectives.counted[rows], op, collectives.communicator[rows], collectives.process[rows])
    )
    rows, op = rows[order], op[order]
    step = np.diff(collectives.counted[rows], prepend=0).astype(float)
    first = np.zeros(len(rows), dtype=bool)
    first[:1] = True
    for values in (op, collectives.communicator[rows], collectives.process[rows]):
        first[1:] |= values[1:] != values[:-1]
    made = np.ones(len(collectives))
    made[rows] = np.where(first | (step > MAX_GAP), 1.0, step)
    return made


def _middle(cells: Floats) -> Floats:
    """(W,) median over those that reported."""
    found = np.full(len(cells), np.nan)
    there = np.isfinite(cells).any(axis=1)
    found[there] = np.nanmedian(cells[there], axis=1)
    return found
