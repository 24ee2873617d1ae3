"""What Prometheus told becomes the arrays of the sequential test, whatever names there are."""

import numpy as np
import pytest

from lockstep.analyzer.read.prometheus.answers import Series
from lockstep.watch.look.members import members
from lockstep.watch.look.panel import (
    CLOCK,
    KNOWN,
    OWN,
    POWER,
    STEPS,
    TEMPERATURE,
    Panel,
    fleet,
    of_gpus,
    of_ranks,
    over_peers,
    slowest_of_nodes,
    speed,
)

TIMES = 1000.0 + 15.0 * np.arange(4)


def series(values, **labels):
    return Series(labels, np.round(TIMES * 1000).astype(np.int64), np.array(values, dtype=float))


def panel(who, own, steps, known=None):
    nothing = np.full((len(TIMES), len(who)), np.nan)
    known = steps if known is None else known
    told = {OWN: own, STEPS: steps, KNOWN: known, CLOCK: nothing, TEMPERATURE: nothing,
            POWER: nothing}  # fmt: skip
    return Panel(TIMES, who, told)


def test_own_time_is_not_known_where_a_step_had_a_collective_that_nobody_timed(ranks):
    who = ranks(1, 1)
    own, steps, known = (
        of_ranks([series(values, run="gpt-1", rank="0")], TIMES, who)
        for values in ([1, 2, 2.5, 3.5], [10, 12, 14, 16], [10, 12, 13, 15])
    )

    found = fleet(panel(who, own, steps, known)).values[:, 0, 0]

    assert [False, True, False] == np.isnan(found).tolist()
    nobody_counts = fleet(panel(who, own, steps, np.full_like(known, np.nan)))
    assert np.isnan(nobody_counts.values).all()


def test_own_time_is_that_of_a_step_between_two_checks(ranks):
    who = ranks(2, 1)
    own = of_ranks([series([1, 2, 4, 4.5], run="gpt-1", rank="1")], TIMES, who)
    steps = of_ranks([series([10, 12, 14, 15], run="gpt-1", rank="1")], TIMES, who)

    found = fleet(panel(who, own, steps))

    assert [0.5, 1.0, 0.5] == found.values[:, 0, 1].tolist()
    assert np.isnan(found.values[:, :, 0]).all()


def test_a_counter_that_fell_or_stood_still_tells_nothing(ranks):
    who = ranks(1, 1)
    own = of_ranks([series([5, 1, 2, 2], run="gpt-1", rank="0")], TIMES, who)
    steps = of_ranks([series([9, 1, 3, 3], run="gpt-1", rank="0")], TIMES, who)

    found = fleet(panel(who, own, steps)).values[:, 0, 0]

    assert [True, False, True] == np.isnan(found).tolist()


def test_a_gauge_goes_to_every_rank_on_the_gpu_and_absent_checks_stay_absent(ranks):
    who = ranks(1, 2)
    told = Series({"uuid": "GPU-1"}, np.array([1000000, 1030000]), np.array([60.0, 61.0]))

    found = of_gpus([told], TIMES, who)

    assert [60.0, 61.0] == found[[0, 2], 1].tolist()
    assert np.isnan(found[[1, 3]]).all()
    assert np.isnan(found[:, 0]).all()


@pytest.mark.parametrize("name", ["<script>", 'a"b', "a\nb", "a\\b", "🔥", "run rank 1", " "])
def test_hostile_names_make_no_two_streams_one(name):
    infos = [
        ({"run": run, "rank": str(rank), "node": name, "instance": "x:1"}, 1.0)
        for run in (name, f"{name} rank 1", f"{name}\n")
        for rank in (0, 1, 11)
    ]
    who = members(infos)
    nothing = np.full((len(TIMES), len(who)), np.nan)

    found = fleet(panel(who, nothing, nothing))

    assert 9 == len(set(zip(found.node.tolist(), found.uuid.tolist(), strict=True)))


def test_the_newest_attempt_of_a_rank_says_where_it_is():
    infos = [
        ({"run": "r", "rank": "0", "attempt": attempt, "node": node, "instance": "i"}, 1.0)
        for attempt, node in (("1", "new"), ("0", "old"))
    ]

    assert ["new"] == members(infos).node.tolist()


def test_small_tensor_parallel_parts_are_compared_in_their_stage():
    infos = [
        ({"run": "r", "rank": str(rank), "tp": str(rank % 2), "pp": "0", "instance": "i"}, 1.0)
        for rank in range(4)
    ]

    assert {"r stage 0"} == set(members(infos).stratum.tolist())


def test_series_that_are_of_no_rank_are_left_out(ranks):
    who = ranks(1, 1)
    strange = [series([1, 2, 3, 4], run="gpt-1", rank=rank) for rank in ("", "x", "-1", "7")]

    assert np.isnan(of_ranks([*strange, series([1, 2, 3, 4])], TIMES, who)).all()


def test_a_rank_is_beside_the_median_of_its_peers_and_a_node_is_its_slowest(ranks):
    who = ranks(4, 2)
    own = np.array([1.0, 1, 1, 1, 1.5, 1, 1, np.nan])

    ratio = over_peers(own, who)

    assert 1.5 == ratio[4]
    assert np.isnan(ratio[7])
    assert 1.5 == slowest_of_nodes(ratio, who)["gpt-1", "node-2"]
    assert np.isnan(over_peers(own[:2], ranks(1, 2))).all()


def test_a_runs_speed_is_the_median_and_its_coverage_counts_who_is_silent(ranks):
    who = ranks(4, 1)

    found = speed(np.array([2.0, 2.0, np.nan, 0.0]), who)["gpt-1"]

    assert (0.5, 0.5) == (found.step_seconds, found.coverage)


def test_no_rank_at_all_is_no_error():
    who = members([])
    nothing = np.empty((4, 0))

    assert 0 == fleet(panel(who, nothing, nothing)).values.size
    assert {} == speed(np.empty(0), who)
