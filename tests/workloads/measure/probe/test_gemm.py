"""Matrix products of every rank: a slow host is named, a rank that was not scheduled is not."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.measure.probe.gemm import Speed, slow_ranks, to_dict


def speeds(*busy: float) -> list[Speed]:
    return [Speed(rank, seconds, 3 * seconds) for rank, seconds in enumerate(busy)]


def test_the_rank_that_computes_slower_than_its_peers_is_named() -> None:
    assert [2] == slow_ranks(speeds(0.020, 0.021, 0.026, 0.020, 0.0205))


def test_ranks_that_differ_as_much_as_each_other_are_healthy() -> None:
    assert [] == slow_ranks(speeds(0.020, 0.025, 0.030, 0.018, 0.022))


@pytest.mark.parametrize("ranks", [1, 2])
def test_too_few_ranks_for_a_majority_name_nobody(ranks: int) -> None:
    assert [] == slow_ranks(speeds(*[0.02, 0.09][:ranks]))


@given(st.lists(st.floats(0.95, 1.05), min_size=3, max_size=16))
def test_ranks_within_five_percent_are_healthy(scales: list[float]) -> None:
    assert [] == slow_ranks(speeds(*(0.02 * scale for scale in scales)))


@given(st.permutations([1.0, 1.0, 1.02, 0.98, 1.01, 1.5]))
def test_the_slow_rank_is_named_wherever_it_stands(scales: list[float]) -> None:
    assert [scales.index(1.5)] == slow_ranks(speeds(*scales))


def test_wall_time_alone_accuses_nobody() -> None:
    seen = [Speed(rank, 0.02, 0.02) for rank in range(3)] + [Speed(3, 0.02, 0.2)]

    assert [] == slow_ranks(seen)


def test_flops_are_two_for_each_of_rows_cubed() -> None:
    tree = to_dict(1000, speeds(0.02, 0.02, 0.04))

    assert [100e9, 100e9, 50e9] == pytest.approx([one["flops"] for one in tree["ranks"]])
    assert [2] == tree["slow"]
    assert tree["text"].startswith("rank 2: ")


def test_a_product_is_long_enough_to_be_timed() -> None:
    from lockstep.workloads.measure.probe import gemm

    torch.set_num_threads(1)
    device = torch.device("cpu")
    rows = gemm._rows(device)
    product = gemm._product(rows, device)
    product()

    assert min(gemm._timed(product, device)[0] for _ in range(3)) > gemm.LEAST_SECONDS / 2
