"""Operations of a rank over time."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lockstep.dashboard.figures import operations as gantt

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
