"""Every value of a metric goes in once, comes out once, and is in one window of a summary."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.metric_series import MetricSeries, Point, SeriesError


def series(values: list[float], name: str = "loss") -> MetricSeries:
    found = MetricSeries()
    for place, value in enumerate(values):
        found.add(name, place, value)
    return found


def test_ten_metrics_of_a_hundred_samples_come_out_whole() -> None:
    found = MetricSeries()
    for place in range(100):
        for metric in range(10):
            found.add(f"metric {metric}", place, metric + place)

    assert [f"metric {metric}" for metric in range(10)] == found.names
    for metric in range(10):
        name = f"metric {metric}"
        assert [Point(place, metric + place) for place in range(100)] == found.points(name)
        assert 10 == len(found.summarized(name, 10))
        assert [Point(place, metric + place) for place in range(95, 100)] == found.last(name, 5)


def test_105_samples_in_10_windows_lose_none() -> None:
    windows = series([float(place) for place in range(105)]).summarized("loss", 10)

    assert 10 == len(windows)
    assert 105 == sum(window.count for window in windows)
    assert {10, 11} == {window.count for window in windows}
    assert 104 == windows[-1].last == windows[-1].most
    assert pytest.approx(windows[-1].mean) == sum(range(94, 105)) / 11


@given(st.lists(st.floats(-1e300, 1e300), max_size=120), st.integers(1, 40))
def test_every_sample_is_in_exactly_one_window(values: list[float], count: int) -> None:
    windows = series(values).summarized("loss", count)
    ends = [(int(window.first), int(window.last)) for window in windows]

    assert min(count, len(values)) == len(windows)
    assert list(range(len(values))) == [
        place for first, last in ends for place in range(first, last + 1)
    ]
    sizes = [window.count for window in windows]
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert all(window.least <= window.most for window in windows)


def test_fewer_samples_than_asked_for_are_given_as_they_are() -> None:
    found = series([1.0, 2.0])

    assert [1.0, 2.0] == [window.mean for window in found.summarized("loss", 10)]
    assert 2 == len(found.last("loss", 5))
    assert [] == found.summarized("nothing", 10) == found.last("nothing", 5)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("abc", "loss: value 'abc' is not a number"),
        ("1.5", "loss: value '1.5' is not a number"),
        (None, "loss: value None is not a number"),
        (True, "loss: value True is not a number"),
        (1j, "is not a number"),
        (math.nan, "loss: value is nan; it must be finite"),
        (math.inf, "loss: value is inf; it must be finite"),
        (10**400, "loss: value is inf; it must be finite"),
    ],
)
def test_what_is_no_number_is_refused_on_entry_and_breaks_nothing(value: object, why: str) -> None:
    found = series([1.0, 2.0])
    with pytest.raises(SeriesError, match=why):
        found.add("loss", 2, value)
    with pytest.raises(SeriesError):
        found.add("other", 2, value)

    assert [1.5] == [window.mean for window in found.summarized("loss", 1)]
    assert ["loss"] == found.names


def test_a_time_that_is_no_number_is_refused_too() -> None:
    with pytest.raises(SeriesError, match="loss: time is nan"):
        MetricSeries().add("loss", math.nan, 1.0)


@pytest.mark.parametrize("count", [0, -3])
def test_asking_for_none_is_refused(count: int) -> None:
    found = series([1.0])
    for ask in (found.last, found.summarized):
        with pytest.raises(SeriesError, match="is too few to ask for; ask for at least 1"):
            ask("loss", count)
