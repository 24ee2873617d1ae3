"""The map of a fleet."""

import json
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.figures import heatmap
from lockstep.dashboard.figures.heatmap import FLAT_NODES, folded
from lockstep.dashboard.figures.picture import Picture
from lockstep.dashboard.shapes import FLEET_METRICS
from tests.dashboard.figures.fleets import fleet

HOSTILE = "<script>alert(1)</script>"
MOST_BYTES = 132_000
"""Of the 150,000 that a page of 10,000 GPUs may be on the wire; the rest of it has 18,000."""


def marks(picture: Picture, name: str) -> dict[str, Any]:
    return next(trace for trace in picture.figure["data"] if trace.get("name") == name)


def straggling(nodes: int, *slow: int) -> list[float]:
    values = np.ones(nodes * 8)
    values[list(slow)] = 1.4
    return values.tolist()


def test_a_straggler_carries_a_mark_that_says_who_it_is() -> None:
    picture = heatmap.fleet(fleet(100, values=straggling(100, 83)))
    assert [["n0010", 3, 83]] == marks(picture, "far from its peers")["customdata"]


def test_the_text_names_the_worst_place_and_how_many_deviate() -> None:
    picture = heatmap.fleet(fleet(100, values=straggling(100, 83)))
    expected = "1 of 800 GPUs far from their peers; the worst is n0010, GPU 3, rank 83: 1.40×."
    assert expected == picture.text


def test_at_most_two_hundred_places_are_marked_and_the_note_says_so() -> None:
    picture = heatmap.fleet(fleet(100, metric="errors", values=[3.0] * 800))
    assert 200 == len(marks(picture, "far from its peers")["customdata"])
    assert "The 200 worst places" in picture.note


def test_what_is_not_known_is_empty_and_no_zero() -> None:
    values = straggling(2)
    values[5] = np.nan
    picture = heatmap.fleet(fleet(2, values=values))
    assert np.isnan(picture.figure["data"][0]["z"][0, 5])
    assert "1 place reported nothing and is empty: that is no 0." in picture.note
    assert "n0000" == picture.table["node"].iloc[-1]


def test_a_silent_node_is_crossed_out_with_a_word() -> None:
    picture = heatmap.fleet(fleet(2, silent=("n0007",)))
    assert ["n0007: no answer"] == marks(picture, "no answer")["hovertext"]
    assert "1 node does not answer." in picture.text


def test_all_places_of_a_small_map_can_be_clicked() -> None:
    picture = heatmap.fleet(fleet(2, values=straggling(2, 3)))
    clicked = [len(trace["customdata"]) for trace in picture.figure["data"][1:]]
    assert [1, 15] == clicked


def test_a_hostile_name_is_no_markup_in_the_figure() -> None:
    picture = heatmap.fleet(fleet(2, names=[HOSTILE, "b"], values=straggling(2, 3)))
    shown = json.dumps(
        [picture.figure["layout"], *(trace.get("text") for trace in picture.figure["data"])]
    )
    assert "<script" not in shown


@pytest.mark.sweep
@pytest.mark.parametrize("metric", [metric.key for metric in FLEET_METRICS])
@pytest.mark.parametrize("nodes", [1, 33, 400])
def test_plotly_takes_it_whatever_is_shown(metric: str, nodes: int) -> None:
    picture = heatmap.fleet(fleet(nodes, metric=metric))
    go.Figure(picture.figure)


@pytest.mark.parametrize("order", ["place", "run"])
def test_nobody_told_anything(order: str) -> None:
    assert "No GPU reported anything at this time." == heatmap.fleet(fleet(0), order).text


def test_nodes_that_are_not_numbered_are_told_by_their_order() -> None:
    names = [f"{'abcdefghij'[node % 10]}{node}x{node * 7}" for node in range(400)]
    picture = heatmap.fleet(fleet(400, names=names))
    assert picture.figure["data"][0]["hovertemplate"].startswith("node %{customdata} of the map")


def test_nodes_that_are_numbered_are_told_by_their_name() -> None:
    cells = heatmap.fleet(fleet(400)).figure["data"][0]
    assert cells["hovertemplate"].startswith("n%{customdata:04d}: ")
    assert 1 == cells["customdata"][1, 0]


def test_ten_thousand_gpus_are_small_on_the_wire() -> None:
    dice = np.random.default_rng(0)
    values = 1 + 0.01 * dice.standard_normal(10_000)
    values[::50] = 1.4
    picture = heatmap.fleet(fleet(1250, values=values.tolist()))
    drawn = go.Figure(picture.figure).update_layout(template="none")  # Streamlit brings its own
    assert MOST_BYTES > len(plotly.io.to_json(drawn, validate=False))


def test_ratios_reach_the_browser_to_a_part_in_a_thousand() -> None:
    values = np.linspace(0.9, 1.5, 800)
    cells = heatmap.fleet(fleet(100, values=values.tolist())).figure["data"][0]["z"]
    shown = np.sort(cells[np.isfinite(cells)])
    np.testing.assert_allclose(values, shown, rtol=1 / 1000)


def test_only_one_run_is_left() -> None:
    shown = fleet(4)
    shown.runs[8:16] = "other"
    assert {"n0001"} == set(heatmap.only_run(shown, "other").nodes)


def test_ordered_by_run_those_without_one_come_last() -> None:
    shown = fleet(3, 1)
    shown.runs[:] = np.array(["", "b", "a"])
    assert ["n0002", "n0001", "n0000"] == list(heatmap.sorted_by_run(shown).nodes)


def test_a_map_of_few_places_is_as_wide_as_they_are() -> None:
    few, many = (heatmap.fleet(fleet(4, gpus)) for gpus in (2, 16))
    widths = [shown.figure["layout"]["xaxis"]["domain"][1] for shown in (few, many)]
    assert widths[0] < 0.25
    assert 1.0 == widths[1]


# Where GPUs lie in the map.


def test_few_nodes_have_a_row_each() -> None:
    places = folded(fleet(3, 2))
    assert (3, 1, 2) == (places.rows, places.columns, places.slots)


def test_ten_thousand_gpus_fill_a_page_that_is_wider_than_high() -> None:
    places = folded(fleet(1250))
    width = places.columns * places.stride
    assert 1.0 < width / places.rows < 3.0


@given(st.integers(1, 90), st.integers(1, 9))
def test_every_value_lies_in_the_place_of_its_gpu(nodes: int, gpus: int) -> None:
    values = np.arange(nodes * gpus, dtype=np.float32)
    shown = fleet(nodes, gpus, values=values.tolist())
    places = folded(shown)
    cells = places.grid(shown.values)
    x, y = places.x(places.node, places.slot), places.y(places.node)
    np.testing.assert_array_equal(values, cells[y, x])
    assert nodes * gpus == np.isfinite(cells).sum()


def test_a_silent_node_has_a_place_and_no_value() -> None:
    places = folded(fleet(FLAT_NODES, silent=("gone",)))
    assert "gone" == places.names[-1]
    assert FLAT_NODES + 1 == len(places.names)


def test_an_empty_fleet_with_a_silent_node_is_no_trouble() -> None:
    places = folded(fleet(0, silent=("gone",)))
    assert (("gone",), 1) == (places.names, places.rows)
