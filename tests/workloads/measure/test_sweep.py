"""The all-reduce sweep: its sizes, its table, and passes of real ranks."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.loop.trainable import Context
from lockstep.workloads.measure.probe.sweep import (
    DTYPES,
    PATTERN,
    Sweep,
    expected,
    pattern,
    planned,
    table,
)
from lockstep.workloads.measure.probe.sweep_passes import MOST_TAGS, SweepPasses, _tags
from lockstep.workloads.parallel.mesh import Mesh
from lockstep.workloads.spec import Layout, RunSpec, SpecError
from tests.workloads.ranks import comm_of

Forked = Callable[[int, Callable[[int], Any]], list[Any]]


def test_sizes_grow_by_the_same_factor() -> None:
    assert (1024, 4096, 16384, 65536) == planned("1K:64K:4", 5, "float32", 8).sizes


def test_the_mlbench_sweep_is_its_logspace_of_elements() -> None:
    sweep = planned("4:400000000:80", 100, "float32", 8)
    wanted = sorted({round(one) for one in np.logspace(0, 8, num=80).tolist()})

    assert wanted == [sweep.elements(size) for size in sweep.sizes]


def test_sizes_that_round_to_the_same_elements_count_once() -> None:
    assert (4, 8, 12) == planned("4:12:9", 1, "float32", 2).sizes


@given(
    st.integers(4, 1 << 20), st.integers(0, 1 << 20), st.integers(2, 100),
    st.sampled_from(list(DTYPES)),
)  # fmt: skip
def test_sizes_are_whole_elements_between_the_least_and_the_most(
    least: int, more: int, count: int, dtype: str
) -> None:
    sizes = planned(f"{least}:{least + more}:{count}", 1, dtype, 4).sizes
    width = DTYPES[dtype][0]

    assert sorted(set(sizes)) == list(sizes)
    assert all(size % width == 0 for size in sizes)
    assert least - width < sizes[0] <= sizes[-1] < least + more + width


@pytest.mark.parametrize(
    ("sizes", "repetitions", "dtype", "ranks", "said"),
    [
        ("1K:1M", 5, "float32", 2, "'1K:1M' is not MIN:MAX:COUNT"),
        ("1K:1X:3", 5, "float32", 2, "'1X' is not a number of bytes"),
        ("1M:1K:3", 5, "float32", 2, "MAX at least MIN"),
        ("2:1K:3", 5, "float32", 2, "MIN must be at least 4 bytes"),
        ("1K:2G:3", 5, "float32", 2, "at most 1G"),
        ("1K:1M:0", 5, "float32", 2, "COUNT '0' must be from 1 to 100"),
        ("1K:1M:1", 5, "float32", 2, "one size has MIN equal to MAX"),
        ("1K:1M:3", 0, "float32", 2, "--repetitions 0 must be from 1"),
        ("1K:1M:3", 5, "float64", 2, "--dtype float64 is unknown; one of float32"),
        ("1K:1M:3", 5, "bfloat16", 65, "exact sums for at most 64 ranks, not 65"),
    ],
)
def test_what_cannot_be_swept_is_refused(
    sizes: str, repetitions: int, dtype: str, ranks: int, said: str
) -> None:
    with pytest.raises(SpecError, match=said.replace("(", r"\(")):
        planned(sizes, repetitions, dtype, ranks)


def test_bandwidths_are_those_of_nccl_tests() -> None:
    """Its example of 8 ranks: 2 GiB in 41.057 ms is 52.305 GB/s, and 91.534 GB/s on the bus."""
    sweep = Sweep((2_147_483_648,), 2, "float32")
    seconds = np.array([[0.040057, 0.042057]])

    (row,) = table(sweep, 8, seconds, np.array([0]))

    assert 52.305e9 == pytest.approx(row["algorithm_bandwidth"], rel=1e-4)
    assert 91.534e9 == pytest.approx(row["bus_bandwidth"], rel=1e-4)
    assert 0.040057 == row["least_seconds"]


def test_one_rank_has_no_bus() -> None:
    (row,) = table(Sweep((4,), 1, "float32"), 1, np.array([[0.001]]), np.array([0]))

    assert row["bus_bandwidth"] is None
    assert 4000.0 == pytest.approx(row["algorithm_bandwidth"])


@pytest.mark.parametrize("ranks", [1, 2, 5, 8, 64])
def test_the_expected_sum_is_the_sum_of_the_patterns(ranks: int) -> None:
    whole = np.array([pattern(rank) for rank in range(ranks)])

    assert whole.sum(axis=0).tolist() == expected(ranks)
    assert [place * 3 % PATTERN for place in range(PATTERN)] == pattern(2)


def test_many_sizes_share_the_short_table_of_tags() -> None:
    few, many = planned("1K:1M:6", 1, "float32", 2), planned("4:400M:80", 1, "float32", 2)

    assert 6 == len(set(_tags(few.sizes)))
    assert "size.1024" == _tags(few.sizes)[0]
    assert MOST_TAGS < len(set(_tags(many.sizes))) <= 32


def passes(rank: int, world: int, folder: Path, sweep: Sweep, claimed: int) -> SweepPasses:
    """A rank's passes, filled with the numbers of the rank that it claims to be."""
    comm = comm_of(rank, world, folder)
    spec = RunSpec("run", "allreduce", Layout(world, 1, world), steps=10, seed=1)
    context = Context(
        spec, claimed, cast("Mesh", None), comm, folder,
        lambda name, tag: nullcontext(), lambda share: None, torch.device("cpu"),
    )  # fmt: skip
    return SweepPasses(context, sweep, probe=False)


def passed(each: SweepPasses, count: int) -> list[dict[str, Any]]:
    for step in range(count):
        each.train(torch.from_numpy(each.batch(step)))
        each.reduce()
        each.update(step)
    rows: list[dict[str, Any]] = each.results()["sweep"]
    return rows


@pytest.mark.distributed
@pytest.mark.parametrize("dtype", list(DTYPES))
def test_a_sweep_has_a_row_a_size_and_right_sums(
    forked: Forked, tmp_path: Path, dtype: str
) -> None:
    sweep = planned("64:16K:3", 4, dtype, 3)

    def work(rank: int) -> Any:
        return passed(passes(rank, 3, tmp_path, sweep, rank), 2)

    rows, *others = forked(3, work)

    assert [64, 1024, 16384] == [row["bytes"] for row in rows]
    assert [(8, 0)] * 3 == [(row["repetitions"], row["wrong"]) for row in rows]
    assert all(0.0 < row["least_seconds"] <= row["median_seconds"] for row in rows)
    assert [rows, rows] == others


@pytest.mark.distributed
def test_a_wrong_sum_is_counted(forked: Forked, tmp_path: Path) -> None:
    """Rank 1 sends what rank 2 should: all elements but each fifth, which is 0, are wrong."""
    sweep = planned("400:400:1", 1, "float32", 2)

    def work(rank: int) -> Any:
        return passed(passes(rank, 2, tmp_path, sweep, 2 * rank), 1)[0]["wrong"]

    assert [160, 160] == forked(2, work)


@pytest.mark.distributed
def test_one_rank_sweeps_too(forked: Forked, tmp_path: Path) -> None:
    sweep = planned("4:4K:2", 2, "float32", 1)

    (rows,) = forked(1, lambda rank: passed(passes(rank, 1, tmp_path, sweep, rank), 1))

    assert [None, None] == [row["bus_bandwidth"] for row in rows]
    assert [0, 0] == [row["wrong"] for row in rows]
