"""How far a y axis reaches: a run's first steps do not flatten the others."""

import numpy as np

from lockstep.dashboard.figures.charts import beyond, warm_up
from lockstep.dashboard.figures.lines import stack
from lockstep.dashboard.shapes import Lines

TIMES = 1_795_000_000.0 + np.arange(100.0)


def chart(values: np.ndarray, key: str = "step", first: int = 0) -> Lines:
    return Lines(key, "Step time", "s", TIMES, {"median": values}, first + np.arange(100.0))


def top(shown: Lines) -> float:
    return float(stack([shown]).figure["layout"]["yaxis"]["range"][1])


def warm(**changed: float) -> np.ndarray:
    values = np.full(100, 0.1)
    values[0] = 3.0
    for place, value in changed.items():
        values[int(place[1:])] = value
    return values


def test_first_steps_that_take_many_times_as_long_leave_the_chart_and_it_is_said() -> None:
    assert top(chart(warm())) < 0.2
    note = stack([chart(warm())]).note
    assert "the first steps took up to 3" in note
    assert "beyond the chart" in note


def test_a_spike_after_warm_up_stays_within_the_chart() -> None:
    assert top(chart(warm(s60=2.5))) > 2.5


def test_a_range_in_the_middle_of_a_run_has_no_warm_up() -> None:
    assert warm_up(chart(warm(), first=5000)) is None
    assert "" == beyond(chart(warm(), first=5000))


def test_other_charts_keep_every_value() -> None:
    assert top(chart(warm(), key="loss")) > 3.0


def test_first_steps_of_which_nothing_is_known_change_nothing() -> None:
    values = warm()
    values[:5] = np.nan
    assert warm_up(chart(values)) is None
    assert warm_up(chart(np.full(100, np.nan))) is None
