"""Which places are far from their peers."""

import numpy as np
import plotly.graph_objects as go
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.figures import deviation
from tests.dashboard.figures.fleets import METRICS, fleet


def away(metric: str, *values: float) -> list[int]:
    mask = deviation.deviating(METRICS[metric], np.array(values, np.float32))
    return np.flatnonzero(mask).tolist()


def test_own_time_deviates_from_a_tenth_on() -> None:
    assert [2] == away("slowdown", 1.0, 1.05, 1.11, 0.5)


def test_one_error_is_one_too_many() -> None:
    assert [1] == away("errors", 0, 1, 0)


def test_a_hot_gpu_deviates_and_a_cold_one_does_not() -> None:
    assert [4] == away("temperature", 60, 61, 62, 61, 95, 30)


def test_a_slow_clock_deviates_and_a_fast_one_does_not() -> None:
    assert [3] == away("clock", 1.98e9, 1.98e9, 1.97e9, 1.2e9, 2.9e9)


def test_power_deviates_to_both_sides() -> None:
    assert [3, 4] == away("power", 600, 610, 605, 200, 990, 600, 600)


@given(st.sampled_from(sorted(METRICS)), st.floats(0, 1e6, width=32), st.integers(1, 9))
def test_places_that_are_all_alike_do_not_deviate(metric: str, value: float, count: int) -> None:
    alike = [min(value, 1.0) if metric == "slowdown" else 0.0 if metric == "errors" else value]
    assert [] == away(metric, *alike * count)


def test_what_is_not_known_does_not_deviate_and_is_never_the_worst() -> None:
    values = np.array([np.nan, 1.0, 1.2], np.float32)
    assert [2, 1] == deviation.worst(METRICS["slowdown"], values, 5).tolist()
    assert [2] == away("slowdown", *values.tolist())


def test_who_idles_is_no_peer_of_who_works() -> None:
    shown = fleet(2, 4, "temperature", values=[60, 61, 95, 60, 30, 31, 30, 31])
    shown.runs[4:] = ""
    assert [2] == np.flatnonzero(deviation.of_fleet(shown)).tolist()


# The spread of a fleet.


def test_every_place_that_told_something_is_in_a_bar() -> None:
    values = np.r_[np.linspace(0.98, 1.02, 14), 1.4, np.nan]
    picture = deviation.histogram(fleet(2, values=values.tolist()))
    alike, apart = (int(trace["y"].sum()) for trace in picture.figure["data"])
    assert (14, 1) == (alike, apart)
    go.Figure(picture.figure)


def test_places_that_are_all_alike_have_one_bar() -> None:
    picture = deviation.histogram(fleet(2))
    assert 1 == np.count_nonzero(picture.figure["data"][0]["y"])


def test_nobody_told_anything() -> None:
    assert "No GPU reported anything at this time." == deviation.histogram(fleet(0)).text
