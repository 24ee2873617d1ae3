"""A rank is compared with the others that do the same work, on every screen alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.stragglers.peers import group_numbers, over_peers, same_size

TOLD = st.one_of(st.floats(0.1, 10), st.just(float("nan")))


@given(st.lists(TOLD, min_size=1, max_size=9))
def test_a_rank_is_over_the_median_of_the_others_of_whom_two_must_be_known(values):
    own = np.array(values)
    known = np.isfinite(own)
    expected = [
        value / np.median(np.delete(own, rank)[np.delete(known, rank)])
        if known[rank] and known.sum() >= 3
        else np.nan
        for rank, value in enumerate(own)
    ]

    found = over_peers(own, np.zeros(len(own), dtype=np.int64))

    np.testing.assert_allclose(found, expected)


def test_a_slow_rank_is_none_of_its_own_peers():
    own = np.array([2.0, 3.0, 2.0])

    assert [0.8, 1.5, 0.8] == over_peers(own, np.zeros(3, dtype=np.int64)).tolist()


@pytest.mark.parametrize("usual", [0.0, -1.0])
def test_over_nothing_there_is_no_ratio(usual):
    assert np.isnan(over_peers(np.array([1.0, usual, usual]), np.zeros(3, dtype=np.int64)))[0]


def test_each_window_is_compared_by_itself_and_groups_apart():
    group = group_numbers([(("r", "0"), 0)] * 3 + [(("r", "1"), 0)] * 3)
    own = np.array([[1.0, 1.0, 2.0, 5.0, 5.0, 5.0], [1.0, 1.0, 1.0, 5.0, 5.0, 10.0]])

    found = over_peers(own, group)

    assert [2.0, 1.0] == found[:, 2].tolist()
    assert [1.0, 2.0] == found[:, 5].tolist()


def test_parts_of_a_stage_with_too_few_ranks_stand_together():
    many = [(("r", "0"), tp) for tp in (0, 1) for _ in range(3)]
    few = [(("r", "1"), tp) for tp in (0, 1) for _ in range(2)]

    numbers = group_numbers([*many, *few])

    assert 3 == len(set(numbers.tolist()))
    assert 1 == len(set(numbers[6:].tolist()))


def test_who_does_not_count_makes_no_group_large_enough():
    places = [(("r", "0"), 0)] * 3 + [(("r", "0"), 1)] * 3
    told = np.array([True, True, False, True, True, True])

    assert [0, 0, -1, 0, 0, 0] == group_numbers(places, told).tolist()


def test_groups_of_one_size_are_one_array_and_who_has_no_peers_is_in_none():
    groups = same_size(np.array([0, 1, 0, 1, 0, 1, 1, -1]))

    assert [[[0, 2, 4]], [[1, 3, 5, 6]]] == [group.tolist() for group in groups]
