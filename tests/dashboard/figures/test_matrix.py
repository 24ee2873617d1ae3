"""The map of ranks over time."""

import numpy as np
import plotly.graph_objects as go

from lockstep.dashboard.figures import matrix
from lockstep.dashboard.figures.matrix import RANKS_AT_MOST, lateness
from lockstep.dashboard.shapes import Matrix

TIMES = 1.79e9 + 10.0 * np.arange(20)


def shown(rows: int = 4, slow: int = 2, unit: str = "ratio") -> Matrix:
    values = np.ones((rows, len(TIMES)))
    values[slow, 12:] = 1.5
    names = tuple(f"rank {row} (node-{row}, GPU 0)" for row in range(rows))
    return Matrix("Own time", unit, names, TIMES, np.arange(20.0), values)


def test_the_largest_place_of_a_slow_rank_is_marked_with_its_name() -> None:
    marks = matrix.matrix(shown()).figure["data"][1]
    assert ["rank 2 (node-2, GPU 0)"] == marks["customdata"]
    assert [1e3 * TIMES[12]] == marks["x"]


def test_the_text_says_who_when_and_how_much() -> None:
    expected = (
        "rank 2 (node-2, GPU 0) has the largest value, 1.50× at 2026-09-21 14:15:20 UTC; the "
        "median of all is 1.00×."
    )
    assert expected == matrix.matrix(shown()).text


def test_the_worst_two_hundred_rows_of_many_are_kept() -> None:
    picture = matrix.matrix(shown(rows=300, slow=299))
    assert (200, "rank 299 (node-299, GPU 0)") == (
        len(picture.figure["data"][0]["y"]), picture.table["row"].iloc[0],
    )  # fmt: skip
    assert "100 are left out" in picture.note


def test_by_step_the_axis_has_steps() -> None:
    picture = matrix.matrix(shown(), axis="step")
    assert 19.0 == picture.figure["data"][0]["x"][-1]
    assert "step" == picture.figure["layout"]["xaxis"]["title"]["text"]


def test_nobody_recorded_anything() -> None:
    empty = Matrix("Own time", "s", (), np.empty(0), None, np.empty((0, 0)))
    assert "These values were not recorded in this range." == matrix.matrix(empty).text


def test_a_row_without_values_is_no_trouble() -> None:
    some = shown()
    some.values[0] = np.nan
    picture = matrix.matrix(some)
    go.Figure(picture.figure)
    assert "nan" not in picture.text


def test_a_hostile_row_is_no_markup() -> None:
    some = Matrix("T", "s", ("<b>x</b>",), TIMES, None, np.ones((1, 20)))
    assert ["&lt;b&gt;x&lt;/b&gt;"] == matrix.matrix(some).figure["data"][0]["y"]


# How far each rank lies above its peers, a box a rank.


def made(values: np.ndarray) -> Matrix:
    names = tuple(f"rank {rank}" for rank in range(len(values)))
    return Matrix("Own time", "ratio", names, np.arange(values.shape[1]) * 1.0, None, values)


EVEN = np.tile(np.linspace(0.9, 1.1, 101), (3, 1))


def test_a_box_spans_the_quantiles_of_its_ranks_windows() -> None:
    box = lateness(made(EVEN)).figure["data"][0]
    told = [box[key][0] for key in ("lowerfence", "q1", "median", "q3", "upperfence")]
    assert [0.91, 0.95, 1.0, 1.05, 1.09] == told


def test_the_named_rank_comes_first_and_is_marked_by_a_word() -> None:
    shown = lateness(made(EVEN * np.array([[1.0], [1.2], [1.5]])), [1])
    assert ["rank 1 ◀ named", "rank 2", "rank 0"] == shown.table["rank"].tolist()
    assert ["peers", "named by the verdict"] == [box["name"] for box in shown.figure["data"]]


def test_a_rank_that_never_answered_is_left_out() -> None:
    values = EVEN.copy()
    values[1] = np.nan
    assert ["rank 0", "rank 2"] == sorted(lateness(made(values)).table["rank"])


def test_ranks_that_are_not_drawn_are_counted() -> None:
    shown = lateness(made(np.tile(EVEN[0], (40, 1))))
    assert RANKS_AT_MOST == len(shown.figure["data"][0]["y"])
    assert f"{40 - RANKS_AT_MOST} ranks" in shown.note


def test_the_text_names_the_highest_median() -> None:
    shown = lateness(made(EVEN * np.array([[1.0], [1.0], [1.5]])), [2])
    assert "The highest median of windows is 1.50×, that of rank 2; the middle rank has 1.00×." == (
        shown.text
    )


def test_nothing_told_is_a_chart_that_says_so() -> None:
    assert "No own times" in lateness(made(np.full((2, 3), np.nan))).text
    assert "No own times" in lateness(made(np.zeros((0, 0)))).text
