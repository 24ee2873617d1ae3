"""Distance from those who must behave alike."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lockstep.analyzer.hardware.sequential_test.residuals import (
    MANY,
    residuals,
    spread,
    to_scale,
)
from lockstep.analyzer.stragglers.peers import same_size

VALUES = st.one_of(st.floats(-5, 5, width=32), st.just(float("nan")))


def _residuals(values, offset=None):
    cells = np.asarray(values, dtype=np.float32)[None, None]
    offset = np.zeros(cells.shape[1:], dtype=np.float32) if offset is None else offset
    return residuals(cells, offset, same_size(np.zeros(cells.shape[2], dtype=np.int64)))[0, 0]


@given(arrays(np.float32, st.integers(1, 12), elements=VALUES))
def test_residual_is_the_distance_from_the_median_of_the_others(values):
    found = _residuals(values)
    told = np.isfinite(values)
    enough = told.sum() >= 3 and 2 * told.sum() > len(values)
    expected = [
        value - np.median(np.delete(values, place)[np.delete(told, place)])
        if enough and told[place]
        else np.nan
        for place, value in enumerate(values)
    ]
    np.testing.assert_allclose(found, np.array(expected), atol=1e-5)


def test_half_of_a_stratum_silent_judges_nobody():
    values = np.arange(8.0)
    values[4:] = np.nan
    assert np.isnan(_residuals(values)).all()


def test_large_strata_take_the_median_of_all():
    values = np.random.default_rng(1).normal(size=MANY + 1)
    np.testing.assert_allclose(_residuals(values), values - np.median(values), atol=1e-6)


def test_peers_that_vanish_do_not_move_those_who_stay():
    offset = np.linspace(-0.1, 0.1, 8, dtype=np.float32)
    gone = offset.copy()
    gone[5:] = np.nan
    np.testing.assert_allclose(_residuals(gone, offset[None])[:5], offset[:5], atol=1e-6)


def test_ratios_are_logs_turned_so_that_more_is_worse():
    values = np.array([[[np.e, 0.0]], [[1.0, -1.0]]], dtype=np.float32)
    found = to_scale(values, np.array([-1], dtype=np.float32), np.array([True]))
    np.testing.assert_allclose(found[:, 0], [[-1, np.nan], [0, np.nan]])


def test_spread_is_the_robust_deviation_of_a_stratum():
    offset = np.array([[0.0, 1.0, 2.0, 3.0, 100.0]], dtype=np.float32)
    found = spread(offset, same_size(np.zeros(5, dtype=np.int64)))
    np.testing.assert_allclose(found, np.full((1, 5), 1.4826), rtol=1e-5)
