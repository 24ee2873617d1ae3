"""How a series goes: turns and climbs are told from noise and jumps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.stats.temporal_shape import Shape, oscillation, plateau, ramp_start, words


def noise(seed, count, size=0.05):
    return size * np.random.default_rng(seed).normal(size=count)


@pytest.mark.parametrize("period", [5, 8, 20, 45])
@pytest.mark.parametrize("duty", [0.25, 0.5])
def test_turns_have_their_period_and_their_share(period, duty):
    on = np.arange(180) % period < duty * period
    seen = oscillation(0.4 * on + noise(1, 180))

    assert seen is not None
    assert round(seen.period) == period
    assert abs(seen.share - on.mean()) < 0.12
    assert abs(seen.high - 0.4) < 0.05


def test_noise_has_no_turns():
    found = [seed for seed in range(300) if oscillation(noise(seed, 180)) is not None]

    assert len(found) <= 2


@pytest.mark.parametrize("period", [2, 3])
def test_the_beat_of_a_cpu_quota_is_no_turn(period):
    assert oscillation(0.4 * (np.arange(180) % period == 0) + noise(2, 180)) is None


def test_a_stall_is_no_turn():
    values = noise(3, 180)
    values[[40, 41, 95]] = 3.0

    assert oscillation(values) is None


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.floats(-3, 3) | st.just(float("nan")), max_size=60))
def test_any_series_has_turns_or_none(values):
    seen = oscillation(np.array(values))

    assert seen is None or (seen.high > seen.low and 2.9 * seen.period <= len(values))


def test_a_climb_begins_at_its_knee():
    climb = 0.5 * np.maximum(np.arange(40) - 12, 0) / 27

    assert abs(ramp_start(climb + noise(4, 40, 0.01), 40) - 12) <= 2


@pytest.mark.parametrize("top", [16, 20, 30])
def test_a_climb_to_a_level_that_stays_begins_at_its_knee(top):
    climb = 0.4 * np.clip((np.arange(40) - 12) / (top - 12), 0.0, 1.0)

    assert abs(plateau(climb + noise(4, 40, 0.01), 0.4) - 12) <= 2


def test_a_jump_is_no_climb_to_a_level():
    found = [plateau(0.4 * (np.arange(40) >= 13) + noise(seed, 40), 0.4) for seed in range(100)]

    assert len([knee for knee in found if knee is not None]) <= 5


def test_a_jump_is_no_climb():
    found = [ramp_start(0.4 * (np.arange(40) >= 13) + noise(seed, 40), 40) for seed in range(50)]

    assert [None] * 50 == found


def test_what_goes_on_and_off_is_said_with_its_period():
    assert ", on and off at regular distances, every 20 steps (50% of the steps)" == words(
        Shape.PERIODIC, 0.5, 20
    )
    assert ", on and off at regular distances (25% of the steps)" == words(Shape.PERIODIC, 0.25)
    assert (", ever more", "", "") == tuple(
        words(shape) for shape in (Shape.RAMP, Shape.CONSTANT, Shape.TRANSIENT)
    )
