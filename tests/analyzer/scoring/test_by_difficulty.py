"""Figures by difficulty: who counts as slow, and whose runs a row is about."""

from dataclasses import replace

import pytest

from lockstep.evaluation.scoring.by_difficulty import (
    NONE,
    is_slow,
    score_difficulties,
    score_healthy,
)
from lockstep.evaluation.scoring.score import Case


def fault(rank, factor, **other):
    return {"rank": rank, "node": "node-0", "cause": "thermal", "scope": "rank",
            "factor_measured": factor, "factor_intended": factor} | other  # fmt: skip


def case(truths, named):
    culprits = [
        {"rank": rank, "node": "node-0", "scope": "rank", "cause": cause, "confidence": 0.9,
         "tier": "page"} for rank, cause in named
    ]  # fmt: skip
    first, *more = truths or [None]
    status = "degraded" if named else "healthy"
    verdict = {"status": status, "culprits": culprits, "alternatives": []}
    return Case(first, verdict, None, 1.0, more=tuple(more))


def test_figures_are_of_the_runs_that_have_the_difficulty():
    runs = [
        (case([fault(1, 1.5)], [(1, "thermal")]), ["drift"]),
        (case([fault(2, 1.5)], []), ["drift", "decoys"]),
        (case([fault(3, 1.04)], []), []),
        (case([], [(4, "ecc")]), ["decoys"]),
    ]
    told = score_difficulties(runs)

    assert {"decoys", "drift", NONE} == set(told["by_difficulty"])
    assert (1, 2) == tuple(told["slow"]["recall"][key] for key in ("count", "of"))
    assert (1, 3) == tuple(told["slow"]["recall_all"][key] for key in ("count", "of"))
    assert 0.5 == told["slow"]["precision"]["value"]
    assert 0.5 == told["by_difficulty"]["drift"]["recall"]["value"]
    assert 1 == told["by_difficulty"]["decoys"]["healthy_named"]["count"]


def test_both_of_two_counts_where_both_are_slow():
    one = case([fault(1, 1.5), fault(2, 1.2)], [(1, "thermal"), (2, "data")])
    other = case([fault(1, 1.5), fault(2, 1.02)], [(1, "thermal")])
    told = score_difficulties([(one, []), (other, [])])

    assert (1, 1) == tuple(told["slow"]["both_named"][key] for key in ("count", "of"))
    assert 2 / 3 == pytest.approx(told["slow"]["cause_macro"]["value"])
    assert {} == told["by_difficulty"]


@pytest.mark.parametrize(("factor", "intended", "slow"), [
    (1.1, 2.0, True), (1.09, 2.0, False), (None, None, True), (None, 1.2, True),
    (None, 1.05, False),
])  # fmt: skip
def test_what_stops_is_slow_and_of_the_network_the_step_counts(factor, intended, slow):
    assert slow == is_slow(fault(1, factor, factor_intended=intended))


def without_fault(status, named=()):
    one = case([], named)
    return replace(one, verdict={**one.verdict, "status": status})


def test_of_healthy_runs_those_count_that_are_steady_and_were_seen():
    runs = [
        (without_fault("healthy"), False, True),
        (without_fault("unknown"), False, True),
        (without_fault("healthy"), False, True),
        (without_fault("unknown"), False, False),
        (without_fault("degraded"), True, True),
        (without_fault("healthy"), True, False),
        (without_fault("degraded", [(1, "ecc")]), True, True),
        (case([fault(1, 1.5)], []), False, True),
    ]
    told = score_healthy(runs)

    assert {"healthy_said": (2, 3), "healthy_said_unseen": (0, 1), "slower_said": (1, 3)} == {
        name: (one["count"], one["of"]) for name, one in told.items()
    }
