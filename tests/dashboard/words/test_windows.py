"""The windows of a run as rows of a file."""

import numpy as np
import pandas as pd

from lockstep.dashboard.shapes import Matrix
from lockstep.dashboard.words.report_file import windows


def test_each_rank_and_window_is_a_row_and_what_is_not_known_is_none() -> None:
    values = np.array([[1.0, 1.5], [np.nan, 0.9]])
    found = windows(
        Matrix("Own time", "ratio", ("rank 0", "rank 1"), np.array([10.0, 20.0]),
               np.array([0.0, 40.0]), values)
    )  # fmt: skip

    assert ["rank 0,10.0,0,1.0", "rank 0,20.0,40,1.5", "rank 1,20.0,40,0.9"] == (
        found.to_csv(index=False).splitlines()[1:]
    )
    assert "Own time (ratio)" == found.columns[-1]


def test_a_run_that_tells_no_steps_has_windows_too() -> None:
    found = windows(Matrix("Own", "s", ("rank 0",), np.array([1.0]), None, np.array([[2.0]])))

    assert pd.isna(found["first_step"].iloc[0])
    assert 1 == len(found)
