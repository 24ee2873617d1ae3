"""What each worker costs, by replica and stage."""

import numpy as np
import pytest

from lockstep.dashboard.figures.layout_map import CELLS_WITH_NUMBERS, HIGH, LOW, layout_map

TOLD = {"S_w": [[1.0, 1.02], [1.4, 1.05]]}
"""Two replicas of two stages; replica 1, stage 0 is the bad one."""


def test_replicas_go_across_and_stages_down() -> None:
    cells = layout_map(TOLD).figure["data"][0]
    assert (["dp 0", "dp 1"], ["stage 0", "stage 1"]) == (cells["x"], cells["y"])
    assert [[1.0, 1.4], [1.02, 1.05]] == cells["z"]


def test_noise_is_dark() -> None:
    cells = layout_map(TOLD).figure["data"][0]
    assert (LOW, HIGH) == (cells["zmin"], cells["zmax"])


def test_the_accused_worker_is_marked_and_others_are_not() -> None:
    marks = layout_map(TOLD, [(1, 0), (7, 0)]).figure["data"][1]
    assert (["dp 1"], ["stage 0"]) == (marks["x"], marks["y"])


def test_the_worst_worker_is_told_in_words() -> None:
    assert "replica 1, stage 0 with 1.40×" in layout_map(TOLD).text
    assert [1, 0, 1.4, "yes"] == layout_map(TOLD, [(1, 0)]).table.iloc[0].tolist()


def test_a_few_cells_carry_their_numbers() -> None:
    many = {"S_w": np.ones((CELLS_WITH_NUMBERS + 1, 1)).tolist()}
    assert "texttemplate" in layout_map(TOLD).figure["data"][0]
    assert "texttemplate" not in layout_map(many).figure["data"][0]


@pytest.mark.parametrize("told", [None, [], [[]], [1.0], [["x"]], [[1.0], [1.0, 2.0]], "x", {}])
def test_what_is_no_table_of_numbers_is_no_map(told: object) -> None:
    shown = layout_map({"S_w": told})
    assert (True, True) == (shown.table.empty, "needs the operations" in shown.text)
