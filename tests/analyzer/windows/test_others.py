"""The leave-one-out median against the plain one."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.slowness.others import others_median
from analyzer.slowness.robust_stats import biweight, median


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), width=st.integers(1, 6), lost=st.floats(0, 0.6))
def test_it_is_the_median_of_all_other_trusted_cells(seed, width, lost):
    dice = np.random.default_rng(seed)
    values = dice.random((2, width, 3))
    values[dice.random(values.shape) < lost] = np.nan
    trusted = dice.random(values.shape) > 0.2
    expected = np.full(values.shape, np.nan)
    for row, place, column in np.ndindex(values.shape):
        others = [
            values[row, other, column]
            for other in range(width)
            if other != place and trusted[row, other, column]
        ]
        there = [value for value in others if np.isfinite(value)]
        if there:
            expected[row, place, column] = np.median(there)

    np.testing.assert_allclose(expected, others_median(values, 1, trusted))


def test_the_median_of_what_is_there_is_nan_where_nothing_is():
    values = np.array([[1.0, np.nan, 4.0], [np.nan, np.nan, np.nan]])

    np.testing.assert_array_equal([2.5, np.nan], median(values, 1))


def test_the_biweight_scale_is_the_deviation_of_gaussians_and_deaf_to_outliers():
    values = np.random.default_rng(0).standard_normal(4000)
    spoilt = np.concatenate([values, np.full(100, 50.0)])

    assert abs(biweight(values) - 1) < 0.05
    assert abs(biweight(spoilt) / biweight(values) - 1) < 0.05
