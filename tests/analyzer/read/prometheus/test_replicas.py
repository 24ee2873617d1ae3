"""Of what several replicas tell, everything counts once, and no counter falls."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.read.prometheus.access import REPLICA_LABELS, RequestError, access
from lockstep.analyzer.read.prometheus.answers import Series
from lockstep.analyzer.read.prometheus.replicas import (
    Reported,
    choice,
    choose,
    merged,
    replica_labels,
)

PAGE = {"job": "lockstep", "instance": "n:9410"}


def _series(replica, times, label="prometheus_replica", **more):
    """A counter that is its own time, as a replica tells it."""
    times = np.asarray(times, dtype=np.int64)
    labels = {**PAGE, "__name__": "steps", **more, **({label: replica} if replica else {})}
    return Series(labels, times, times.astype(float))


def _told(replica, *targets, newest=1000.0):
    return {(replica,): Reported(frozenset(("j", one) for one in targets), newest, 15.0)}


def test_series_of_one_server_stay_as_they_are():
    series = [_series("a", [0, 1000]), _series("a", [0, 1000], rank="1")]

    assert [one.labels for one in series] == [one.labels for one in merged(series)]


def test_what_only_one_replica_tells_is_there():
    series = [_series("a", [0, 1000, 2000]), _series("b", [500, 1500], rank="1")]

    assert [[0, 1000, 2000], [500, 1500]] == [one.times.tolist() for one in merged(series)]


def test_of_two_replicas_the_one_with_more_samples_tells():
    found = merged([_series("b", range(500, 9000, 1000)), _series("a", range(0, 9000, 1000))])

    assert [{**PAGE, "__name__": "steps"}] == [one.labels for one in found]
    assert list(range(0, 9000, 1000)) == found[0].times.tolist()


def test_where_one_is_silent_the_other_tells():
    first = [*range(0, 5000, 1000), *range(9000, 15000, 1000)]
    (found,) = merged([_series("a", first), _series("b", range(400, 15000, 1000))])
    filled = [4400, 5400, 6400, 7400, 8400]

    # `b` has more samples, so it leads; of a pair cut the other way `a` would.
    assert set(filled) <= set(found.times.tolist())
    assert (np.diff(found.times) >= 500).all()
    assert (np.diff(found.values) > 0).all()


@given(
    st.lists(st.booleans(), min_size=5, max_size=60),
    st.integers(1, 999),
    st.integers(-400, 400),
)
def test_no_counter_falls_and_no_scrape_counts_twice(there, behind, ahead):
    """`b` scrapes `behind` after `a`, and its clock is `ahead`: less than half a scrape."""
    a = [1000 * n for n, one in enumerate(there) if one]
    b = [1000 * n + behind for n in range(len(there))]
    of_b = Series(
        {**PAGE, "__name__": "steps", "replica": "b"},
        np.asarray(b, dtype=np.int64) + ahead, np.asarray(b, dtype=float),
    )  # fmt: skip
    found = merged([*([_series("a", a, "replica")] if a else []), of_b])

    assert 1 == len(found)
    assert (np.diff(found[0].times) > 0).all()
    assert (np.diff(found[0].values) >= 0).all()
    assert len(found[0].times) <= 2 * len(there)


def test_both_series_of_a_page_come_from_the_same_scrapes():
    a, b = range(0, 9000, 1000), range(300, 9000, 1000)
    series = [_series(one, times, rank=rank) for one, times in (("a", a), ("b", b))
              for rank in "01"]  # fmt: skip
    first, second = merged(series)

    assert first.times.tolist() == second.times.tolist() == list(a)


def test_shards_are_asked_each_and_of_each_one_replica():
    told = {**_told("s0-a", "n0", "n1"), **_told("s0-b", "n0", "n1"),
            **_told("s1-a", "n2"), **_told("s1-b", "n2")}  # fmt: skip
    found = choose(told, ("replica",))

    assert (("s0-a",), ("s1-a",)) == found.asked
    assert 'replica!~"s0\\\\-b|s1\\\\-b"' == found.matchers
    assert frozenset() == found.lost


def test_a_replica_that_is_silent_is_not_asked():
    found = choose({**_told("a", "n0", newest=900.0), **_told("b", "n0")}, ("replica",))

    assert (("b",),) == found.asked


def test_targets_that_only_the_others_tell_of_are_said():
    told = {**_told("a", "n0", "n1", "n2"), **_told("b", "n1", "n2", "n3")}
    found = choose(told, ("replica",))

    assert frozenset({("j", "n3")}) == found.lost
    assert found.words.endswith("1 targets that only those have are not seen")


@pytest.mark.parametrize("of_b", [("n1", "n9"), ("n1", "n8", "n9")])
def test_a_shard_that_shares_one_target_with_another_is_asked(of_b):
    """A replica that only repeats is still silent: of two shards each has two here."""
    told = {**_told("a0", "n1", "n2", "n3"), **_told("a1", "n1", "n2", "n3"),
            **_told("b0", *of_b), **_told("b1", *of_b)}  # fmt: skip
    found = choose(told, ("replica",))

    assert (("a0",), ("b0",)) == found.asked
    assert frozenset() == found.lost


def test_one_server_with_a_replica_label_is_asked_as_it_is():
    page = {**PAGE, "prometheus_replica": "a"}
    found = choice([(page, 1000.0)], [(page, 20.0)], ("prometheus_replica",))

    assert ("", "") == (found.matchers, found.words)


def test_labels_are_replicas_by_name_or_because_somebody_says_so():
    names = ["job", "replica", "prometheus_replica", "__replica__", "replicas", "dp", "member"]

    assert ("__replica__", "prometheus_replica", "replica") == replica_labels(names)
    assert "member" in replica_labels(names, ("member",))


def test_a_setting_names_other_labels():
    assert ("x", "y") == access("http://h", {REPLICA_LABELS: "x, y"}).replica_labels
    with pytest.raises(RequestError, match="has 'a-b', which is no label; write names with commas"):
        access("http://h", {REPLICA_LABELS: "x,a-b"})
