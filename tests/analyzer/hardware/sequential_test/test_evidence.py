"""What one sample says, and how much is enough."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import t as student

from lockstep.analyzer.hardware.sequential_test.cusum import mixture
from lockstep.analyzer.hardware.sequential_test.false_alarms import (
    Budget,
    BudgetError,
    e_bh,
    recency,
)
from lockstep.analyzer.hardware.sequential_test.likelihood import (
    CELLS,
    FREEDOM,
    NO_SAMPLE,
    REACH,
    SHIFTS,
    WEIGHTS,
    cells,
    scores,
)
from lockstep.analyzer.hardware.sequential_test.residuals import (
    MANY,
    residuals,
)
from lockstep.analyzer.stragglers.peers import same_size


@pytest.mark.parametrize(("seconds", "nats"), [(60.0, 20.4), (15.0, 21.7)])
def test_threshold_is_the_references_for_160_streams_and_a_hundredth_alarm(seconds, nats):
    assert nats == round(Budget(0.01, seconds, 160).nats, 1)


@pytest.mark.parametrize("name", ["false_alarms", "check_seconds", "streams"])
def test_budget_of_nothing_is_refused_by_name(name):
    with pytest.raises(BudgetError, match=f"^{name} of the budget is 0; it must be above 0$"):
        Budget(**{name: 0})


def test_healthy_sample_is_an_e_value_for_every_shift():
    lower = np.arange(NO_SAMPLE) / CELLS - REACH
    reached = student.sf(np.append(lower, np.inf), FREEDOM)
    reached[0] = 1  # what is below the first cell counts as in it
    chance = -np.diff(reached)
    expected = np.exp(scores()[:, :NO_SAMPLE].astype(float)) @ chance
    assert ((expected > 0.9) & (expected <= 1 + 1e-6)).all()


def test_scores_never_fall_so_that_smaller_noise_is_an_e_value_too():
    assert (np.diff(scores()[:, :NO_SAMPLE], axis=1) >= 0).all()


def test_three_wild_samples_are_no_alarm():
    most = scores()[:, NO_SAMPLE - 1][:, None]
    assert mixture(3 * most)[0] < Budget().nats


def test_missing_sample_says_nothing():
    assert [0.0] * len(SHIFTS) == scores()[:, cells(np.zeros(1, np.float32), np.array([True]))][
        :, 0
    ].tolist()


def test_weights_of_shifts_and_of_ages_add_up_to_one():
    assert 1 == pytest.approx(sum(WEIGHTS))
    assert 1 == pytest.approx(recency(np.arange(1, 100_001)).sum(), abs=1e-4)


def test_e_bh_reports_as_in_the_paper():
    # Of 4 tested at 0.5: k e_(k) >= 8 holds for k = 3 (3 x 3 = 9) and not for 4 (4 x 1).
    assert [True, False, True, True] == e_bh(np.array([3.0, 1.0, 7.0, 3.5]), 4, 0.5).tolist()


@given(st.lists(st.floats(0, 1e6), max_size=30), st.integers(0, 20), st.floats(0.01, 0.5))
def test_e_bh_reports_the_most_that_all_reach_their_share(values, hopeless, alpha):
    tested = len(values) + hopeless
    ordered = sorted(values, reverse=True)
    most = max((k for k in range(1, len(values) + 1) if k * ordered[k - 1] >= tested / alpha),
               default=0)  # fmt: skip
    assert most == int(e_bh(np.array(values), tested, alpha).sum())


# Distance from those who must behave alike.

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
