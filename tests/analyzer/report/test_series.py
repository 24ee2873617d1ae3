"""Lines for charts keep what matters when points are left out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.report.series import MAX_BUCKETS, thinned


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=False, width=32), min_size=1, max_size=900)
)
def test_thinning_keeps_the_extremes_and_the_order(values: list[float]) -> None:
    array = np.array(values)
    picked = thinned(array)

    assert picked == sorted(set(picked))
    assert len(picked) <= 2 * MAX_BUCKETS
    if np.isfinite(array).any():
        assert np.nanmax(array) == np.nanmax(array[picked])
        assert np.nanmin(array) == np.nanmin(array[picked])
