"""A rank's own past, where nobody knows which of two is normal."""

import numpy as np

from analyzer.run import FloatGrid
from analyzer.slowness.changepoint import Shift, column_medians

OWN_SHARE = 0.6
"""At least this share of the change between two must be in the suspect's own past."""


def own_change(own: FloatGrid, shift: Shift, column: int) -> float:
    """Change of a column's own log time (B, R) between the span and the rest of its past."""
    inside = np.zeros(len(own), dtype=bool)
    inside[shift.first : shift.last] = True
    mine = own[:, [column]]
    return float((column_medians(mine[inside]) - column_medians(mine[~inside]))[0])
