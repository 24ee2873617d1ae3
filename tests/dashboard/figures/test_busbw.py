"""Bus bandwidth over the size, beside the best of the same kind."""

import numpy as np
import pandas as pd

from lockstep.dashboard.figures.operations import SERIES_AT_MOST, busbw, expected

FRAME = pd.DataFrame({
    "op": ["dp-all-reduce", "dp-all-reduce", "grads-reduce-scatter", "tp-all-reduce", "pp-send"],
    "group": ["dp", "dp", "dp", "tp", "pp"], "count": [10, 10, 20, 5, 1],
    "bytes": [1e3, 1e6, 1e6, 1e6, 1e6], "busbw": [1e6, 1e9, 2e9, 1e9, np.nan],
})  # fmt: skip


def test_expected_is_the_best_of_the_group_with_that_size() -> None:
    assert [1e6, 2e9, 2e9] == expected(FRAME).tolist()[:3]


def test_a_larger_message_is_expected_to_be_as_fast_as_a_smaller_one() -> None:
    assert [1e9, 1e9, 2e9] == expected(FRAME.assign(busbw=[1e9, 5e8, 2e9, 1, 1]).assign(
        bytes=[1e3, 1e4, 1e6, 1, 1])).tolist()[:3]  # fmt: skip


def test_without_anything_to_compare_nothing_is_expected() -> None:
    assert [True, True] == expected(FRAME).isna().tolist()[3:]


def test_an_operation_is_held_against_what_is_expected_in_the_table() -> None:
    assert [1.0, 0.5, 1.0] == busbw(FRAME).table["share of expected"].tolist()[:3]


def test_markers_have_both_axes_logarithmic() -> None:
    layout = busbw(FRAME).figure["layout"]
    assert ("log", "log") == (layout["xaxis"]["type"], layout["yaxis"]["type"])


def test_the_expected_line_is_dashed() -> None:
    line = busbw(FRAME).figure["data"][-1]
    assert ("dash", [1e3, 1e6], [1e6, 2e9]) == (line["line"]["dash"], line["x"], line["y"])


def test_without_an_expectation_the_note_says_how_to_get_one() -> None:
    shown = busbw(FRAME.iloc[3:])
    assert "No expected line" in shown.note
    assert "--probe" in shown.note


def test_a_chosen_operation_stands_alone() -> None:
    assert ["tp-all-reduce"] == busbw(FRAME, "tp-all-reduce").table["op"].tolist()


def test_a_chosen_operation_is_held_against_all_of_its_group() -> None:
    assert [1.0, 0.5] == busbw(FRAME, "dp-all-reduce").table["share of expected"].tolist()


def test_nothing_told_is_a_chart_that_says_so() -> None:
    assert "No sizes" in busbw(FRAME, "pp-send").text
    assert "No sizes" in busbw(FRAME.iloc[:0]).text


def test_hostile_names_are_text_and_too_many_are_counted() -> None:
    many = pd.concat([FRAME.iloc[:1].assign(op=f"<i>{n}") for n in range(SERIES_AT_MOST + 2)])
    shown = busbw(many)
    markers = [each for each in shown.figure["data"] if each["mode"] == "markers"]
    assert SERIES_AT_MOST == len(markers)
    assert "2 more operations" in shown.note
    assert shown.figure["data"][0]["name"].startswith("&lt;i&gt;")
