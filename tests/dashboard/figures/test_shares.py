"""Which operations take the time."""

import pandas as pd

from lockstep.dashboard.figures.operations import BARS_AT_MOST, shares
from lockstep.dashboard.figures.units import quantity

FRAME = pd.DataFrame({
    "op": ["a", "b", "a"], "group": ["dp", "tp", "dp"], "count": [1, 2, 3],
    "total_seconds": [1.0, 3.0, 4.0],
})  # fmt: skip


def test_sizes_of_one_operation_are_summed() -> None:
    assert [["a", "dp", 5.0, 4], ["b", "tp", 3.0, 2]] == (
        shares(FRAME).table.iloc[:, :4].to_numpy().tolist()
    )


def test_the_longest_is_told_with_its_share() -> None:
    expected = f"a of group dp takes the most time: {quantity(5.0, 's')}, 62% of all."
    assert expected == shares(FRAME).text


def test_the_chosen_one_is_marked_by_a_word() -> None:
    assert ["a (dp)", "b (tp) ◀ chosen"] == shares(FRAME, "b").figure["data"][0]["y"]


def test_what_is_not_drawn_is_counted() -> None:
    many = pd.concat([FRAME.iloc[:1].assign(op=f"op-{n}") for n in range(BARS_AT_MOST + 3)])
    assert "3 more are only in the table." == shares(many).note


def test_nothing_told_is_a_chart_that_says_so() -> None:
    assert "No collectives" in shares(FRAME.iloc[:0]).text
    assert "No collectives" in shares(FRAME.assign(total_seconds=float("nan"))).text
