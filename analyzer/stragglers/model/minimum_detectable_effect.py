"""How slow a rank must have been to be noticed: what makes "healthy" more than "nothing seen"."""

import numpy as np

from lockstep.analyzer.shapes.run import Grid
from lockstep.analyzer.stats.changepoint import MEDIAN_EFFICIENCY, block_means, blocks, critical_t
from lockstep.analyzer.stats.robust_stats import spread
from lockstep.analyzer.stragglers.model.precision import WINDOWS, Precision
from lockstep.analyzer.stragglers.model.reference import references, residuals
from lockstep.analyzer.stragglers.model.roles import for_roles

SURELY = 3.0
"""Standard errors above what is asked for, so that nine in ten are noticed (see the tests): chance
takes 1.3 of them, the search's correction for the likeness of neighbouring blocks the rest."""


def smallest_noticed(grid: Grid, precision: Precision = WINDOWS) -> float | None:
    """The slowdown, as a ratio, that is noticed in nine of ten runs if it lasts for half the run.

    Of the noisiest rank: its spread against its peers over the blocks of steps, and the score that
    the search for slow spans asks for. None where ranks cannot be compared.

    Args:
        grid: The run's windows.
        precision: What these can show.
    """
    precision = for_roles(grid, precision)
    groups = blocks(grid, least=precision.block_steps)
    own = np.log(block_means(grid.time["own"], groups))
    noise = spread(residuals(own, references(grid, of_nodes=False)), 0)
    noise = noise[np.isfinite(noise)]
    count = len(groups)
    if not noise.size or count < 2:
        return None
    error = MEDIAN_EFFICIENCY * max(noise.max(), precision.noise) * 2 / float(np.sqrt(count))
    asked = critical_t(count, len(noise), len(noise) * count * (count + 1) // 2)
    return float(np.exp(max(asked * error, precision.floor) + SURELY * error))
