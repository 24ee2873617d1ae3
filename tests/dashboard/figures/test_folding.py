"""Where GPUs lie in the map."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.figures.heatmap import FLAT_NODES, folded
from tests.dashboard.figures.fleets import fleet


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
