"""Scaling of confidences: fitted on some verdicts, better on others, and order-preserving."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.scoring.calibration import CalibrationError, Scaling, brier, platt, temperature
from analyzer.scoring.score import calibration_error


def _told(seed, count=3000, *, by):
    """Verdicts whose confidence is `by` of the true chance of being right."""
    dice = np.random.default_rng(seed)
    chance = dice.uniform(0.3, 0.99, count)
    right = dice.random(count) < chance
    return [(by(float(p)), bool(r)) for p, r in zip(chance, right, strict=True)]


def _hot(p):
    """Overconfident: logits twice as far from 0."""
    return Scaling(2.0)(p)


@pytest.mark.parametrize("fit", [temperature, platt])
def test_overconfident_verdicts_are_cooled_on_seeds_that_were_not_fitted(fit):
    scaling = fit(_told(0, by=_hot))
    unseen = _told(1, by=_hot)

    assert 0.5 == pytest.approx(scaling.slope, rel=0.1)
    assert calibration_error(scaling.over(unseen)) < 0.03 < 0.08 < calibration_error(unseen)
    assert brier(scaling.over(unseen)) < brier(unseen)


def test_calibrated_verdicts_are_left_as_they_are():
    assert 1.0 == pytest.approx(temperature(_told(2, by=float)).temperature, rel=0.08)


def test_platt_finds_a_shift_that_a_temperature_cannot():
    def timid(p):
        return Scaling(1.0, -1.0)(p)

    told = _told(3, by=timid)

    assert (1.0, 1.0) == pytest.approx((platt(told).slope, platt(told).shift), abs=0.15)
    assert brier(platt(told).over(told)) < brier(temperature(told).over(told))


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("fit", [temperature, platt])
def test_verdicts_that_are_all_right_or_all_wrong_make_nothing_certain(fit, right):
    scaling = fit([(0.9, right)] * 20)

    assert 0.0 < scaling(0.9) < 1.0


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=10, max_size=40))
def test_the_order_of_confidences_is_kept(pairs):
    for scaling in (temperature(pairs), platt(pairs)):
        scaled = [scaling(confidence) for confidence in sorted(c for c, _ in pairs)]
        assert scaled == sorted(scaled)
        assert all(0.0 <= each <= 1.0 for each in scaled)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [([(0.9, True)] * 9, "9 labelled verdicts are too few"),
     ([(float("nan"), True)] * 10, "a confidence is no number")],
)  # fmt: skip
def test_what_cannot_be_fitted_is_refused(pairs, words):
    with pytest.raises(CalibrationError, match=words):
        temperature(pairs)


def test_without_a_verdict_there_is_no_brier_score():
    assert (None, 0.25) == (brier([]), brier([(0.5, True)]))
