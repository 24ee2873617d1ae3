"""Bus bandwidth over the size, beside the best of the same kind."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lockstep.dashboard.figures import operations as gantt
from lockstep.dashboard.figures.operations import (
    BARS_AT_MOST,
    SERIES_AT_MOST,
    busbw,
    expected,
    shares,
)
from lockstep.dashboard.figures.units import quantity

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


# Operations of a rank over time.

START = 1.79e9


def operations(count: int = 6) -> pd.DataFrame:
    kinds = (("forward-compute", ""), ("dp-all-reduce", "dp"), ("data-load", ""))
    rows = [
        (kinds[at % 3][0], kinds[at % 3][1], at // 3, START + 0.1 * at, 0.05 + 0.01 * (at % 3), 8.0)
        for at in range(count)
    ]
    return pd.DataFrame(rows, columns=["op", "group", "step", "start", "seconds", "bytes"])


def test_computation_collectives_and_data_are_told_apart_by_more_than_colour() -> None:
    traces = gantt.gantt(operations()).figure["data"]
    assert ["computation", "collective", "data"] == [trace["name"] for trace in traces]
    assert 3 == len({trace["marker"]["pattern"]["shape"] for trace in traces})


def test_a_bar_begins_and_ends_when_its_operation_does() -> None:
    collective = gantt.gantt(operations()).figure["data"][1]
    np.testing.assert_allclose([100.0, 400.0], collective["base"], atol=1e-3)
    np.testing.assert_allclose([60.0, 60.0], collective["x"], atol=1e-3)


def test_the_longest_operations_of_many_are_kept_and_the_note_says_so() -> None:
    picture = gantt.gantt(operations(3000))
    drawn = sum(len(trace["x"]) for trace in picture.figure["data"])
    assert gantt.MOST_BARS == drawn
    assert "1,500 are in the table only" in picture.note


def test_no_operations_are_a_sentence() -> None:
    picture = gantt.gantt(operations(0))
    go.Figure(picture.figure)
    assert "No operation was recorded in this range." == picture.text


# Which operations take the time.

SHARES_FRAME = pd.DataFrame({
    "op": ["a", "b", "a"], "group": ["dp", "tp", "dp"], "count": [1, 2, 3],
    "total_seconds": [1.0, 3.0, 4.0],
})  # fmt: skip


def test_sizes_of_one_operation_are_summed() -> None:
    assert [["a", "dp", 5.0, 4], ["b", "tp", 3.0, 2]] == (
        shares(SHARES_FRAME).table.iloc[:, :4].to_numpy().tolist()
    )


def test_the_longest_is_told_with_its_share() -> None:
    expected = f"a of group dp takes the most time: {quantity(5.0, 's')}, 62% of all."
    assert expected == shares(SHARES_FRAME).text


def test_the_chosen_one_is_marked_by_a_word() -> None:
    assert ["a (dp)", "b (tp) ◀ chosen"] == shares(SHARES_FRAME, "b").figure["data"][0]["y"]


def test_what_is_not_drawn_is_counted() -> None:
    many = pd.concat([SHARES_FRAME.iloc[:1].assign(op=f"op-{n}") for n in range(BARS_AT_MOST + 3)])
    assert "3 more are only in the table." == shares(many).note


def test_no_operation_is_a_chart_that_says_so() -> None:
    assert "No collectives" in shares(SHARES_FRAME.iloc[:0]).text
    assert "No collectives" in shares(SHARES_FRAME.assign(total_seconds=float("nan"))).text
