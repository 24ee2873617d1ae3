"""Who is named for simulated ends of runs, also where half of the pages are missing."""

from collections import Counter

import pytest

from tests.ends import CRASH, FREEZE, HALF, KINDS, NODE, STUCK, USER, drawn, judged

SEEDS = range(300)
SURE = 0.7


@pytest.fixture(scope="module")
def ends():
    """(end, its word, the certainty) of each seed."""
    return [(end, *judged(end)) for end in map(drawn, SEEDS)]


def test_every_kind_of_end_is_drawn(ends):
    assert set(KINDS) == {end.kind for end, _, _ in ends}
    assert 80 < sum(end.lacks == HALF for end, _, _ in ends)


def test_nobody_innocent_is_named_surely(ends):
    assert [] == [end.guilty for end, word, sure in ends if word == "wrong" and sure >= SURE]


def test_a_run_that_its_user_ended_accuses_nobody(ends):
    assert {"nobody"} == {word for end, word, _ in ends if end.kind == USER}


@pytest.mark.parametrize("kind", [FREEZE, STUCK, CRASH])
def test_where_half_of_the_pages_are_missing_the_one_who_was_seen_is_named_or_nobody(ends, kind):
    words = Counter(word for end, word, _ in ends if (end.kind, end.lacks) == (kind, HALF))

    assert words["wrong"] == 0
    assert words["right"] >= 0.6 * words.total()


def test_nobody_is_told_as_one_of_half_of_all_ranks_where_a_frozen_one_was_seen(ends):
    """Each at an eighth, as if the pages that are there told nothing."""
    frozen = [(word, sure) for end, word, sure in ends if end.kind == FREEZE]

    assert all(sure > 0.25 for word, sure in frozen if word != "nobody")


def test_of_a_lost_node_its_own_ranks_are_named_before_those_that_were_silent_before(ends):
    words = Counter(word for end, word, _ in ends if end.kind == NODE)

    assert words["right"] + words["among"] > 5 * words["wrong"]
