"""Where the time of a step goes, of the slowest ranks beside who they should be like."""

import numpy as np
import pandas as pd

from lockstep.dashboard.figures.matrix import matrix, same_range
from lockstep.dashboard.figures.phases import PATTERNS, RANKS_AT_MOST, phases, phases_beside
from lockstep.dashboard.figures.picture import nothing
from lockstep.dashboard.figures.units import quantity
from lockstep.dashboard.shapes import Matrix

RANKS = pd.DataFrame({
    "rank": [2, 0, 1, 3], "node": ["n-1", "n-0", "n-0", "n-1"], "pp": [0, 0, 0, 0],
    "data_seconds": [0.01] * 4, "forward_seconds": [0.03, 0.02, 0.02, 0.02],
    "backward_seconds": [0.06, 0.04, 0.04, 0.04], "grad_sync_seconds": [0.001, 0.03, 0.03, 0.03],
    "checkpoint_seconds": [0.0] * 4,
})  # fmt: skip


def test_the_named_rank_stands_beside_the_median_of_the_others() -> None:
    shown = phases(RANKS, [2])
    assert ["median of the others", "rank 2 (n-1) ◀ named"] == shown.table["who"].tolist()[:2]
    more = quantity(0.02, "s")
    expected = f"Rank 2 (n-1) spends {more} more per step in backward than the median of its stage."
    assert expected == shown.text


def test_waiting_of_the_others_is_no_excess_of_the_named_one() -> None:
    row = phases(RANKS, [2]).table.set_index("who").loc["rank 2 (n-1) ◀ named"]
    assert -0.029 == round(row["grad_sync over the median (s)"], 6)


def test_a_phase_that_nobody_was_in_has_no_bar() -> None:
    names = [bar["name"] for bar in phases(RANKS).figure["data"]]
    assert ["data", "forward", "backward", "grad_sync"] == names


def test_bars_differ_by_pattern_as_well_as_by_colour() -> None:
    shapes = [bar["marker"]["pattern"]["shape"] for bar in phases(RANKS).figure["data"]]
    assert list(PATTERNS[:4]) == shapes


def test_each_rank_is_held_against_its_own_stage() -> None:
    heavy = RANKS.assign(pp=[1, 0, 0, 1])
    names = phases(heavy).table["who"].tolist()
    assert ["median of stage 0", "median of stage 1"] == names[:2]


def test_many_ranks_are_counted_and_not_drawn() -> None:
    many = pd.concat([RANKS] * 10, ignore_index=True).assign(rank=range(40))
    shown = phases(many)
    assert RANKS_AT_MOST + 1 == len(shown.figure["data"][0]["y"])
    assert "30 more ranks are not drawn" in shown.note


def test_without_phases_the_chart_says_so() -> None:
    assert "No phases" in phases(RANKS[["rank", "node", "pp"]]).text
    assert "No phases" in phases(RANKS.iloc[:0]).text


def test_hostile_names_are_text() -> None:
    shown = phases(RANKS.assign(node="<b>x</b>"), [2])
    assert "rank 2 (&lt;b&gt;x&lt;/b&gt;) ◀ named" == shown.figure["data"][0]["y"][1]


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
    assert "were reported" in phases_beside(TOLD.iloc[:0]).text
