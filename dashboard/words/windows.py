"""The windows of a run as rows, for a file."""

import numpy as np
import pandas as pd

from dashboard.shapes import Matrix


def windows(found: Matrix) -> pd.DataFrame:
    """One row a rank and window.

    Columns: `rank, start_seconds, first_step, value`; the last is the matrix' own, its unit in the
    name. What is not known is left out.
    """
    rows, times = found.values.shape
    steps = np.full(times, np.nan) if found.steps is None else found.steps
    value = f"{found.title} ({found.unit})"
    frame = pd.DataFrame({
        "rank": np.repeat(np.asarray(found.rows, dtype=object), times),
        "start_seconds": np.tile(found.times, rows),
        "first_step": np.tile(steps, rows),
        value: found.values.ravel(),
    })  # fmt: skip
    frame["first_step"] = frame["first_step"].astype("Int64")
    return frame[frame[value].notna()]
