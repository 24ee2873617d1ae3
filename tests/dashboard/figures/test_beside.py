import numpy as np
import pandas as pd

from lockstep.dashboard.figures.matrix import matrix, same_range
from lockstep.dashboard.figures.phases import phases_beside
from lockstep.dashboard.figures.picture import nothing
from lockstep.dashboard.shapes import Matrix

TOLD = pd.DataFrame({"phase": ["forward"], "a": [0.01], "b": [0.02], "difference": [0.01],
                     "change": [1.0]})  # fmt: skip


def heat(most: float) -> Matrix:
    values = np.array([[1.0, most], [1.0, 1.0]])
    return Matrix("Own time", "ratio", ("rank 0", "rank 1"), np.arange(2.0), None, values)


def test_maps_that_are_compared_have_the_same_colours() -> None:
    one, other = same_range(matrix(heat(1.1)), matrix(heat(1.5)))
    ends = [(each.figure["data"][0]["zmin"], each.figure["data"][0]["zmax"])
            for each in (one, other)]  # fmt: skip
    assert ends[0] == ends[1]
    assert ends[0][1] >= 1.4


def test_a_map_of_nothing_is_left_as_it_is() -> None:
    empty = nothing("a", "Nothing.")
    assert (empty, empty) == same_range(empty, empty)
    assert "Nothing." == same_range(empty, matrix(heat(1.1)))[0].text


def test_phases_of_two_runs_stand_beside_each_other_with_their_numbers() -> None:
    shown = phases_beside(TOLD)
    assert ["a", "b"] == [each["name"] for each in shown.figure["data"]]
    assert "forward: 10.0 ms in a, 20.0 ms in b." == shown.text


def test_without_phases_the_picture_says_so() -> None:
    assert "Nobody told" in phases_beside(TOLD.iloc[:0]).text
