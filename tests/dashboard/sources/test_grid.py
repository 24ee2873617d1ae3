"""No range makes more points than Prometheus or a chart can bear."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.dashboard.shapes import Lines, Span
from lockstep.dashboard.sources.grid import MOST_DRAWN, MOST_POINTS, NICE, duration, grid, thin

YEAR = 366 * 86400.0
STARTS = st.floats(0, 4e9, allow_nan=False)
LENGTHS = st.floats(0.001, 100 * YEAR, allow_nan=False)
SCRAPES = st.sampled_from([math.nan, 0.2, 1.0, 5.0, 15.0, 30.0, 60.0])


@given(STARTS, LENGTHS, SCRAPES, st.integers(2, 5000))
def test_a_grid_covers_its_span_with_few_points(start, seconds, scrape, points):
    span = Span(start, start + seconds)
    found = grid(span, scrape, points)
    assert len(found.times) <= min(max(points, 3), MOST_POINTS)
    assert found.start - found.step <= span.start + 1e-6
    assert found.end >= span.end - 1e-6
    assert found.end < span.end + found.step + 1e-6


@given(STARTS, LENGTHS, SCRAPES)
def test_both_ends_are_multiples_of_the_step_and_the_step_is_no_scrape_split(
    start, seconds, scrape
):
    found = grid(Span(start, start + seconds), scrape)
    for end in (found.start, found.end):
        assert abs(end / found.step - round(end / found.step)) < 1e-6
    assert found.step >= (scrape if scrape == scrape else 15.0)


@given(STARTS, LENGTHS, st.floats(0, 4e9))
def test_nothing_is_asked_of_the_future(start, seconds, now):
    found = grid(Span(start, start + seconds), 15.0, now=now)
    assert found.end <= max(now, 0) + found.step
    assert found.start <= found.end


def test_a_step_is_told_in_its_largest_unit():
    words = ["0.5 s", "15 s", "1 min", "15 min", "1 h", "1 day", "12 days"]
    assert words == [duration(each) for each in (0.5, 15, 60, 900, 3600, 86400, 12 * 86400)]
    assert len(NICE) == len({duration(each) for each in NICE})


# Fewer points: every spike and every gap stays.


def chart(*lines: np.ndarray) -> Lines:
    times = np.arange(len(lines[0]), dtype=float)
    named = {f"line {index}": line for index, line in enumerate(lines)}
    return Lines("step", "Step time", "s", times, named, steps=times + 7)


@given(
    count=st.integers(MOST_DRAWN + 1, 90_000),
    place=st.integers(0, 2**31),
    line=st.integers(0, 3),
    up=st.booleans(),
    seed=st.integers(0, 9),
)
@settings(max_examples=60, deadline=None)
def test_a_spike_of_one_sample_is_always_drawn(
    count: int, place: int, line: int, up: bool, seed: int
) -> None:
    at = place % count
    values = [np.random.default_rng(seed + each).random(count) for each in range(4)]
    values[line][at] = 9.0 if up else -9.0
    found = thin(chart(*values))

    assert len(found.times) <= MOST_DRAWN
    where = np.flatnonzero(found.times == at)
    assert 1 == len(where)
    assert found.values[f"line {line}"][where[0]] == values[line][at]


@given(count=st.integers(MOST_DRAWN + 1, 20_000), begin=st.integers(0, 2**31),
       length=st.integers(1, 50))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_a_gap_stays_a_gap(count: int, begin: int, length: int) -> None:
    first = begin % count
    values = np.random.default_rng(0).random(count)
    values[first : first + length] = np.nan
    found = thin(chart(values))
    inside = (found.times >= first) & (found.times < first + length)

    assert np.isnan(found.values["line 0"][inside]).any()


def test_points_are_values_that_were_told_with_their_steps() -> None:
    values = np.sin(np.arange(50_000) / 100)
    found = thin(chart(values, values + 1))
    at = found.times.astype(int)

    np.testing.assert_array_equal(values[at], found.values["line 0"])
    np.testing.assert_array_equal(found.times + 7, found.steps)
    assert (np.diff(found.times) > 0).all()


def test_few_moments_stay_as_they_are() -> None:
    few = chart(np.arange(MOST_DRAWN, dtype=float))

    assert thin(few) is few


def test_the_sampling_says_how_many_moments_are_drawn() -> None:
    found = thin(chart(np.arange(10_000, dtype=float)))

    assert f"{len(found.times)} of 10000 moments" in found.sampling


def test_the_first_and_the_last_moment_stay() -> None:
    found = thin(chart(np.zeros(10_000)))

    assert [0, 9999] == [found.times[0], found.times[-1]]


@pytest.mark.parametrize("values", [np.full(5000, np.nan), np.zeros(5000)])
def test_lines_that_say_one_thing_are_thinned_too(values: np.ndarray) -> None:
    assert len(thin(chart(values)).times) <= MOST_DRAWN
