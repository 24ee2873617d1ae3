"""A foreign trace as windows of a step each, told by its operations themselves."""

from dataclasses import replace

import numpy as np

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.operations.trace_outliers import cells
from lockstep.analyzer.operations.trace_outliers.residuals import own_times
from lockstep.analyzer.shapes.operations import Trace
from lockstep.analyzer.shapes.run import EXPECTED_STEPS, Grid, Run
from lockstep.analyzer.stats.robust_stats import mean, median


def trace_grid(trace: Trace, run: Run) -> Grid:
    """The grid of a trace's steps and workers.

    Own time is what a worker computes, at the same work where micro-batches tell it. No step is
    known to be a warm-up, and of no wait and no hour anything is told.

    Args:
        trace: The operations.
        run: The same as windows (`to_run`).
    """
    grid, found = align(run), cells(trace)
    unknown = np.full_like(grid.time["wall"], np.nan)
    own = unknown
    if found is not None:
        same, cancelled = own_times(found, np.zeros(found.usual.shape, dtype=bool))
        if cancelled:
            # A step may be longer for all.
            same = same + median(mean(found.ratio, (0, 1)), (0, 1))
        level = np.median(found.usual, axis=1)[:, None, None]
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
