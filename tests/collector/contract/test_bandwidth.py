"""The check values of the public samples: NCCL Inspector's README and nccl-tests' formulas."""

import pytest

from lockstep.collector.contract.bandwidth import (
    OPERATIONS,
    algorithm_bandwidth,
    bus_bandwidth,
    bus_factor,
    whole_bytes,
)


@pytest.mark.parametrize(
    ("op", "size", "ranks", "microseconds", "algorithm", "bus"),
    [
        ("all_reduce", 17_179_869_184, 8, 61_974, "277.210914", "485.119099"),
        ("reduce_scatter", 2_147_483_648, 8, 41_057, "418.439467", "366.134533"),
        ("all_gather", 65_536, 32, 110, "19.065018", "18.469236"),
        ("broadcast", 1_000_000_000, 4, 1_000_000, "1.000000", "1.000000"),
        ("send", 1_000_000_000, 2, 500_000, "2.000000", "2.000000"),
        ("all_to_all", 1_000_000_000, 4, 1_000_000, "1.000000", "0.750000"),
    ],
)
def test_bandwidths_are_those_of_the_public_samples(op, size, ranks, microseconds, algorithm, bus):
    seconds = microseconds / 1e6

    assert algorithm == f"{algorithm_bandwidth(op, size, ranks, seconds) / 1e9:.6f}"
    assert bus == f"{bus_bandwidth(op, size, ranks, seconds) / 1e9:.6f}"


def test_a_lone_rank_puts_nothing_on_the_bus():
    assert 0.0 == bus_factor("all_reduce", 1)


def test_every_operation_has_a_factor_of_at_most_two_and_a_size():
    for op in OPERATIONS.values():
        assert 0 < bus_factor(op, 1024) < 2
        assert whole_bytes(op, 10, 4) in (10, 40)
