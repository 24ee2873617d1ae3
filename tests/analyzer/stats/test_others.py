"""The leave-one-out median against the plain one."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.stats.peer_groups import other_parts_median, others_median
from lockstep.analyzer.stats.robust_stats import biweight, median, median_of, quantiles_of


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


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), width=st.integers(1, 9), lost=st.floats(0, 0.6))
def test_without_parts_it_is_the_median_of_the_cells_of_all_other_parts(seed, width, lost):
    dice = np.random.default_rng(seed)
    values, part = dice.random((3, width)), dice.integers(0, 4, width)
    values[dice.random(values.shape) < lost] = np.nan
    expected = np.column_stack([median(values[:, part != one], 1) for one in part])

    np.testing.assert_array_equal(expected, other_parts_median(values, part))


def test_the_median_of_what_is_there_is_nan_where_nothing_is():
    values = np.array([[1.0, np.nan, 4.0], [np.nan, np.nan, np.nan]])

    np.testing.assert_array_equal([2.5, np.nan], median(values, 1))


NUMBERS = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), max_size=40)


@settings(max_examples=200, deadline=None)
@given(values=NUMBERS, share=st.floats(0, 1))
def test_of_few_values_it_is_what_numpy_says_to_the_last_bit(values, share):
    told = np.array(values, dtype=float)
    expected = [np.quantile(told, share), np.median(told)] if values else [np.nan, np.nan]

    found = [*quantiles_of(told, share), median_of(np.append(told, [np.nan, np.inf]))]

    np.testing.assert_array_equal(expected, found)


def test_the_biweight_scale_is_the_deviation_of_gaussians_and_deaf_to_outliers():
    values = np.random.default_rng(0).standard_normal(4000)
    spoilt = np.concatenate([values, np.full(100, 50.0)])

    assert abs(biweight(values) - 1) < 0.05
    assert abs(biweight(spoilt) / biweight(values) - 1) < 0.05
