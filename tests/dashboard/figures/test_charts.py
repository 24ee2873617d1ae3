"""Names at the ends of lines, and how far a y axis reaches."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.figures.charts import (
    LONGEST,
    apart,
    beyond,
    labels,
    short,
    together,
    warm_up,
)
from lockstep.dashboard.figures.lines import stack
from lockstep.dashboard.shapes import Lines


@given(st.lists(st.floats(0, 100), max_size=9).map(sorted))
def test_names_never_overlap(wanted: list[float]) -> None:
    places = apart(wanted, 12, 100)
    assert len(wanted) == len(places)
    assert all(right - left >= 12 - 1e-9 for left, right in itertools.pairwise(places))
    assert all(0 <= place for place in places)
    assert all(place <= 100 + 1e-9 for place in places) or 12 * (len(places) - 1) > 100


def test_names_with_room_stand_where_their_lines_end() -> None:
    assert [10.0, 50.0, 90.0] == apart([10.0, 50.0, 90.0], 12, 100)


def test_lines_that_end_in_one_place_have_one_name() -> None:
    ends = [("XIDs", 0.0), ("drops", 0.0), ("kills", 0.0), ("read", 4.0), ("write", 4.0)]
    assert [("read", 4.0), ("write", 4.0), ("3 lines at 0", 0.0)] == together(ends)


def test_names_that_would_be_cut_alike_keep_what_tells_them_apart() -> None:
    names = ["memory errors, corrected", "memory errors, uncorrected", "XIDs"]
    assert ["…corrected", "…uncorrected", "XIDs"] == short(names)
    assert ["a name alone that is long"] == short(["a name alone that is long"])


@given(st.lists(st.text(min_size=1, max_size=40), max_size=9, unique=True))
def test_no_name_is_wider_than_the_margin(names: list[str]) -> None:
    ends = [(name, float(index)) for index, name in enumerate(names)]
    drawn = labels(ends, (0.0, 10.0), (0.0, 1.0), 112)
    # Escaped letters are longer than what is seen.
    plain = [one["text"].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
             for one in drawn]  # fmt: skip
    assert all(len(name) <= LONGEST for name in plain)


# How far a y axis reaches: a run's first steps do not flatten the others.

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
