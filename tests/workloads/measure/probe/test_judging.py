"""Simulated networks: what is slow is named in few rounds, and a healthy network names nobody."""

import random
from collections.abc import Callable
from itertools import combinations
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.measure.probe.judging import Kind, ProbeResult, decide, next_round
from lockstep.workloads.measure.probe.links import (
    LinkTimes,
    Pair,
    Timing,
    covering,
    matchings,
    packed,
    round_count,
)

NOISE = 0.10
MEDIAN_OVER_LEAST = 0.05

Slowing = Callable[[Pair, int], float]
"""Factor on a link's times in a round, by its number from 0."""


def searched(nodes: int, seed: int, slowing: Slowing, probes: str = "both") -> ProbeResult:
    """The probe on a simulated network of equal links with 10 % noise on every time."""
    dice = random.Random(seed)
    history: list[dict[Pair, LinkTimes]] = []

    def timing(usual: float, factor: float) -> Timing:
        least = usual * factor * (1.0 + NOISE * max(-3.0, min(3.0, dice.gauss(0.0, 1.0))))
        return Timing(least, least * (1.0 + MEDIAN_OVER_LEAST))

    while slots := next_round(nodes, history):
        assert len(history) < 20
        measured = {}
        for pair in (pair for slot in slots for pair in slot):
            factor = slowing(pair, len(history))
            latency = factor if probes in ("both", "latency") else 1.0
            there = factor if probes in ("both", "there") else 1.0
            back = factor if probes in ("both", "back") else 1.0
            measured[pair] = LinkTimes(
                timing(40e-6, latency), timing(400e-6, there), timing(400e-6, back)
            )
        history.append(measured)
    return decide(nodes, history)


def named(finding: ProbeResult) -> list[tuple[int, ...]]:
    return [one.nodes for one in finding.culprits]


@pytest.mark.sweep
@pytest.mark.parametrize("nodes", range(3, 17))
def test_each_single_bad_link_is_named_in_at_most_two_logarithms_of_rounds(nodes: int) -> None:
    for seed, bad in enumerate(combinations(range(nodes), 2)):
        found = searched(nodes, seed, lambda pair, _, bad=bad: 2.5 if pair == bad else 1.0)

        assert (Kind.LINK, [bad]) == (found.kind, named(found))
        assert found.rounds <= 2 * ceil(log2(nodes))


@pytest.mark.sweep
@pytest.mark.parametrize("nodes", range(3, 17))
def test_each_single_bad_node_is_named_in_at_most_two_logarithms_of_rounds(nodes: int) -> None:
    for bad in range(nodes):
        found = searched(nodes, bad, lambda pair, _, bad=bad: 2.5 if bad in pair else 1.0)

        assert (Kind.NODE, [(bad,)]) == (found.kind, named(found))
        assert found.rounds <= 2 * ceil(log2(nodes))


@given(st.integers(4, 16), st.integers(0, 2**32), st.floats(2.3, 200.0), st.data())
def test_how_slow_and_in_which_probe_does_not_matter(
    nodes: int, seed: int, factor: float, data: st.DataObject
) -> None:
    """Of three nodes, one link cannot always be told from its end: one in a hundred is not."""
    bad = data.draw(st.sampled_from(list(combinations(range(nodes), 2))))
    probes = data.draw(st.sampled_from(["both", "latency", "there", "back"]))

    found = searched(nodes, seed, lambda pair, _: factor if pair == bad else 1.0, probes)

    assert [bad] == named(found)


@given(st.integers(3, 16), st.integers(0, 2**32))
def test_a_healthy_network_names_nobody(nodes: int, seed: int) -> None:
    found = searched(nodes, seed, lambda pair, _: 1.0)

    assert (Kind.NONE, []) == (found.kind, named(found))


@given(st.integers(4, 16), st.integers(0, 2**32), st.data())
def test_what_was_slow_once_is_measured_again_and_not_named(
    nodes: int, seed: int, data: st.DataObject
) -> None:
    once = data.draw(st.sets(st.sampled_from(list(combinations(range(nodes), 2))), max_size=nodes))
    rounds = len(covering(nodes))

    found = searched(
        nodes, seed, lambda pair, number: 9.0 if pair in once and number < rounds else 1.0
    )

    assert [] == named(found)


def test_several_bad_links_are_all_named() -> None:
    bad = {(0, 3): 3.0, (5, 6): 9.0}

    found = searched(8, 1, lambda pair, _: bad.get(pair, 1.0))

    assert (Kind.SEVERAL, [(5, 6), (0, 3)]) == (found.kind, named(found))


def test_a_bad_node_and_a_bad_link_elsewhere_are_both_named() -> None:
    found = searched(8, 1, lambda pair, _: 4.0 if 2 in pair or pair == (5, 6) else 1.0)

    assert (Kind.SEVERAL, [(2,), (5, 6)]) == (found.kind, named(found))


@pytest.mark.parametrize("nodes", [1, 2])
def test_one_link_has_no_other_to_be_compared_with(nodes: int) -> None:
    assert Kind.UNKNOWN is searched(nodes, 1, lambda pair, _: 9.0).kind


def test_nobody_is_named_where_no_speed_is_the_usual_one() -> None:
    found = searched(8, 1, lambda pair, _: 1.3 ** (3 * (pair[0] + pair[1])))

    assert (Kind.UNKNOWN, []) == (found.kind, named(found))


def test_a_difference_within_the_noise_of_the_machine_is_none() -> None:
    """2x slower, but the repetitions of every link differ by much more than that."""
    history: list[dict[Pair, LinkTimes]] = []
    while slots := next_round(8, history):
        history.append({})
        for pair in (pair for slot in slots for pair in slot):
            least = 80e-6 if pair == (2, 5) else 40e-6
            one = Timing(least, least + 500e-6)
            history[-1][pair] = LinkTimes(one, one, one)

    assert Kind.NONE is decide(8, history).kind


def test_the_sentence_names_ends_probe_and_times() -> None:
    found = searched(8, 3, lambda pair, _: 100.0 if pair == (2, 5) else 1.0, "latency")

    assert found.text.startswith("the link between node-2 and node-5 is slow: latency ")
    assert "ms is usual" in found.text


# Which nodes exchange with which, and in how few rounds.

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
