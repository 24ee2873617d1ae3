"""The way from the cluster to a collective."""

import pytest

from dashboard.address import Place
from dashboard.widgets.crumbs import trail


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Place(), ["Cluster"]),
        (Place(node="n"), ["Cluster", "n"]),
        (Place(node="n", gpu=0), ["Cluster", "n", "GPU 0"]),
        (Place(node="n", gpu=0, rank=8, op="dp-all-reduce"),
         ["Cluster", "n", "GPU 0", "rank 8", "dp-all-reduce"]),
    ],
)  # fmt: skip
def test_the_way_has_a_station_for_all_that_is_known(place: Place, expected: list[str]) -> None:
    assert expected == [label for label, _, _ in trail(place)]


def test_every_station_forgets_what_is_further_in() -> None:
    place = Place(run="r", node="n", gpu=1, rank=3, op="send")
    there = [place.but(**changes) for _, _, changes in trail(place)]
    assert [
        Place(run="r"),
        Place(run="r", node="n"),
        Place(run="r", node="n", gpu=1, rank=3),
        Place(run="r", node="n", gpu=1, rank=3),
        place,
    ] == there
