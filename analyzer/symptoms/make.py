"""A series that moved -> a Symptom with its begin and how own time follows it."""

import numpy as np

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.symptoms.series import Level, dose_response, is_near, onset_delay, tolerance
from analyzer.symptoms.shape import Symptom


def symptom(
    grid: Grid,
    finding: Finding,
    cells: FloatGrid,
    told: Level,
    *,
    text: str,
    query: str,
    seen: bool,
    grave: bool = True,
) -> Symptom:
    """The symptom that a series shows.

    Args:
        grid: The run's windows.
        finding: Whom it is about.
        cells: (W, R) the series.
        told: How high it is.
        text: What is seen, or that nothing is.
        query: The PromQL that shows it.
        seen: Whether it is trouble.
        grave: As `Symptom.grave`.
    """
    if not seen:
        return Symptom(False, text, query)
    late = onset_delay(grid, finding, cells, told.other, told.during)
    within = None if np.isnan(late) else abs(late) <= tolerance(grid)
    rho = dose_response(grid, finding, cells)
    # A link that loses width is worse the lower it is.
    rho = rho if told.during > told.other else -rho
    return Symptom(True, text, query, late, within, is_near(grid, finding, late), rho, grave)
