"""Who is above a threshold for so long without a break."""

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid, Grid


def lasting(grid: Grid, above: NDArray[np.bool_], length: FloatGrid, seconds: float) -> list[int]:
    """Ranks that are above in looks one after the other that last at least so long.

    Args:
        grid: For the names of the columns.
        above: (V, R) of each look.
        length: (V,) seconds that a look stands for.
        seconds: How long.
    """
    run, most = np.zeros(above.shape[1]), np.zeros(above.shape[1])
    for row, took in zip(above, length, strict=True):
        run = np.where(row, run + took, 0.0)
        most = np.maximum(most, run)
    return [grid.ranks[column].rank for column in np.flatnonzero(most >= seconds)]
