"""How far each rank lies above its peers, a box a rank."""

import numpy as np

from lockstep.dashboard.figures.matrix import RANKS_AT_MOST, lateness
from lockstep.dashboard.shapes import Matrix


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
    assert (
        "The highest median of its windows has rank 2 with 1.50×; the middle rank has 1.00×."
        == (shown.text)
    )


def test_nothing_told_is_a_chart_that_says_so() -> None:
    assert "No own times" in lateness(made(np.full((2, 3), np.nan))).text
    assert "No own times" in lateness(made(np.zeros((0, 0)))).text
