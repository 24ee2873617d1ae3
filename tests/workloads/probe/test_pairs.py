"""Which nodes exchange with which, and in how few rounds."""

from itertools import combinations
from math import ceil, log2

import pytest

from lockstep.workloads.measure.probe.links import covering, matchings, packed, round_count

NODES = range(2, 34)


@pytest.mark.sweep
@pytest.mark.parametrize("nodes", NODES)
def test_every_link_is_measured_once(nodes: int) -> None:
    pairs = [pair for slots in covering(nodes) for slot in slots for pair in slot]

    assert list(combinations(range(nodes), 2)) == sorted(pairs)


@pytest.mark.sweep
@pytest.mark.parametrize("nodes", NODES)
def test_no_node_has_two_partners_in_a_slot(nodes: int) -> None:
    for slot in matchings(nodes):
        ends = [node for pair in slot for node in pair]
        assert len(ends) == len(set(ends))


@pytest.mark.sweep
@pytest.mark.parametrize("nodes", NODES)
def test_all_links_take_no_more_than_the_logarithm_of_the_nodes_in_rounds(nodes: int) -> None:
    assert ceil(log2(nodes)) == round_count(nodes) == len(covering(nodes))


@pytest.mark.sweep
@pytest.mark.parametrize("nodes", NODES)
def test_the_slots_are_as_few_as_can_be_and_spread_evenly(nodes: int) -> None:
    lengths = [len(slots) for slots in covering(nodes)]

    assert nodes - 1 + nodes % 2 == sum(lengths)  # an idle node in each, if they are odd
    assert max(lengths) - min(lengths) <= 1


def test_links_that_share_a_node_are_packed_into_different_slots() -> None:
    assert (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3),)) == packed(
        [(2, 3), (0, 2), (1, 3), (0, 3), (0, 1)]
    )
