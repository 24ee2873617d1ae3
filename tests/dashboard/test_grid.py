"""No range makes more points than Prometheus or a chart can bear."""

import math

from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.shapes import Span
from lockstep.dashboard.sources.grid import MOST_POINTS, NICE, duration, grid

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
