"""The way from the cluster to a collective."""

import pandas as pd
import pytest

from lockstep.dashboard.address import Location
from lockstep.dashboard.trouble import Kind, TroubleError
from lockstep.dashboard.widgets.links import trail, with_gpu

RANKS = pd.DataFrame({"rank": [0, 3], "gpu": [0, 1]})


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (Location(), ["Cluster"]),
        (Location(node="n"), ["Cluster", "n"]),
        (Location(node="n", gpu=0), ["Cluster", "n", "GPU 0"]),
        (Location(node="n", gpu=0, rank=8, op="dp-all-reduce"),
         ["Cluster", "n", "GPU 0", "rank 8", "dp-all-reduce"]),
    ],
)  # fmt: skip
def test_the_way_has_a_station_for_all_that_is_known(
    location: Location, expected: list[str]
) -> None:
    assert expected == [label for label, _, _ in trail(location)]


def test_every_station_forgets_what_is_further_in() -> None:
    location = Location(run="r", node="n", gpu=1, rank=3, op="send")
    there = [location.but(**changes) for _, _, changes in trail(location)]
    assert [
        Location(run="r"),
        Location(run="r", node="n"),
        Location(run="r", node="n", gpu=1, rank=3),
        Location(run="r", node="n", gpu=1, rank=3),
        location,
    ] == there


def test_collectives_are_those_of_a_run() -> None:
    way = trail(Location(run="r", op="send"), "collectives")
    assert [("Cluster", "cluster"), ("Run r", "run"), ("send", "collectives")] == [
        (label, page) for label, page, _ in way
    ]


def test_a_rank_has_its_gpu_on_the_way() -> None:
    location = with_gpu(Location(run="r", node="n", rank=3), lambda: RANKS)
    assert ["Cluster", "n", "GPU 1", "rank 3"] == [label for label, _, _ in trail(location)]


@pytest.mark.parametrize(
    "ranks", [RANKS.assign(gpu=-1), RANKS.iloc[:1], RANKS.iloc[:0], pd.DataFrame()]
)
def test_a_rank_without_a_gpu_stands_alone(ranks: pd.DataFrame) -> None:
    location = Location(run="r", node="n", rank=3)
    assert location == with_gpu(location, lambda: ranks)


def test_where_ranks_are_not_told_the_way_is_that_of_the_address() -> None:
    def ranks() -> pd.DataFrame:
        raise TroubleError(Kind.UNREACHABLE, "It is down.", "Start it.")

    location = Location(run="r", node="n", rank=3)
    assert location == with_gpu(location, ranks)
