"""Figures as data: sizes are numbers, shares are of a step, one worker communicates with nobody."""

import csv
import io
from typing import Any

import pytest

from lockstep.bench.plots import Plot, draw, plots, read_prices
from lockstep.bench.spec import BenchError
from tests.bench.rows import row


def result(ranks: int, step: float, **given: Any) -> dict[str, Any]:
    share = 0.0 if ranks == 1 else 0.2
    return row(
        cell=f"gpt,{ranks}", workload="gpt", settings='{"steps": 40}', ranks=ranks, hardware="T4",
        step_seconds=step, samples_per_second=ranks / step, wall_seconds=360.0,
        computation_share=1 - share, communication_share=share, forward_seconds=step / 2,
        backward_seconds=step / 2, **given,
    )  # fmt: skip


ROWS = [result(16, 2.0), result(2, 1.0), result(4, 1.25), result(4, 1.35)]


def by_name(rows: list[dict[str, Any]], **given: Any) -> dict[str, Plot]:
    return {each.name.partition("-gpt")[0]: each for each in plots(rows, **given)}


def test_a_speed_up_is_over_the_smallest_size_and_sizes_sort_as_numbers() -> None:
    """MLBench sorted 2, 4, 16 as texts and called 16 the baseline."""
    (one,) = by_name(ROWS)["speed-up"].series

    assert [2, 4, 16] == [point[0] for point in one.points]
    assert [1.0, pytest.approx(4 / 1.3 / 2, rel=0.01), 4.0] == [point[1] for point in one.points]
    low, high = one.points[1][2:]
    assert low is not None
    assert high is not None
    assert low < one.points[1][1] < high


def test_one_size_alone_has_no_speed_up_and_it_is_told() -> None:
    assert "speed-up" not in by_name(ROWS[:1])


def test_the_communication_share_of_one_worker_is_0() -> None:
    shares = by_name([result(1, 1.0), result(2, 1.0)])["share"]
    told = {one.name: [point[1] for point in one.points] for one in shares.series}

    assert {"computation": [1.0, 0.8], "communication": [0.0, 0.2]} == told


def test_a_run_without_communication_still_has_figures() -> None:
    bare = [{**each, "communication_share": None, "computation_share": None} for each in ROWS]

    assert {"speed-up", "phases"} <= set(by_name(bare))


def test_cost_is_hours_times_ranks_times_the_price_of_the_hardware() -> None:
    told = by_name([result(2, 1.0), result(4, 1.0, time_to_goal_seconds=36.0)], prices={"T4": 0.35})
    (one,) = told["cost"].series

    assert [(2, pytest.approx(0.07)), (4, pytest.approx(0.014))] == [p[:2] for p in one.points]


def test_the_price_index_is_cost_over_that_of_the_smallest_size() -> None:
    rows = [result(2, 1.0), result(4, 1.0, time_to_goal_seconds=36.0)]
    (one,) = by_name(rows, prices={"T4": 0.35})["price-index"].series

    assert [(2, 1.0), (4, pytest.approx(0.2))] == [point[:2] for point in one.points]
    assert "price-index" not in by_name(rows[:1], prices={"T4": 0.35})


def test_hardware_without_a_price_is_told_and_not_free() -> None:
    other = result(2, 1.0)
    other["hardware"] = "H100"
    told = plots([other, result(4, 1.0)], {"T4": 0.35})
    cost = next(each for each in told if each.name == "cost")

    assert ("no price of H100",) == cost.missing
    assert [4] == [point[0] for point in cost.series[0].points]


def test_failed_results_are_in_no_figure() -> None:
    assert [] == plots([{**each, "status": "failed"} for each in ROWS])


def test_every_figure_is_data_too() -> None:
    lines = list(csv.DictReader(io.StringIO(by_name(ROWS)["speed-up"].to_csv())))

    assert ["2", "4", "16"] == [line["ranks"] for line in lines]
    assert {"gpt"} == {line["series"] for line in lines}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[prices", "not TOML"), ("x = 1", r"has no \[prices\]"),
        ('[prices]\n"T4" = -1', "price of T4 is -1"),
        ('[prices]\n"T4" = "1"', "price of T4 is '1'"),
    ],
)  # fmt: skip
def test_a_wrong_price_table_is_told(text: str, said: str) -> None:
    with pytest.raises(BenchError, match=said):
        read_prices(text)
    assert {"T4": 0.35} == read_prices('[prices]\n"T4" = 0.35')


def test_pictures_are_drawn_of_every_figure() -> None:
    for each in plots(ROWS, {"T4": 0.35}):
        assert draw(each, "svg").startswith(b"<?xml")
