"""Scores: rates with counts and intervals, baselines beside them, delay by replay."""

from dataclasses import replace

import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.shapes.verdict_json import verdict_json
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.evaluation.published_rules import trivial_answers
from lockstep.evaluation.scoring.replay import detection_delay, prefix
from lockstep.evaluation.scoring.score import (
    NONE,
    Case,
    calibration_error,
    is_right,
    is_slow,
    poisson_upper,
    rate,
    score,
    score_difficulties,
    score_healthy,
)

TRUTH = {"rank": 2, "node": None, "cause": "thermal", "from_step": 80}
NAMED = ("never", "random", "slowest_step", "last_rank")


def _verdict(rank, cause="thermal", confidence=0.9, tier="page", others=()):
    culprit = {"rank": rank, "node": f"node-{rank}", "cause": cause, "confidence": confidence,
               "tier": tier}  # fmt: skip
    alternatives = [{"cause": other, "confidence": 0.05} for other in others]
    return {"culprits": [] if rank is None else [culprit], "alternatives": alternatives}


def test_every_key_of_the_command_is_there_and_under_each_baseline():
    keys = {"precision", "recall", "f1", "rank_top1", "cause_top1", "cause_top3", "ece",
            "false_pages_per_node_month", "false_pages_per_node_month_upper95",
            "delay_median_seconds", "delay_p95_seconds"}  # fmt: skip
    case = Case(TRUTH, _verdict(2), 1.0, 0.01, dict.fromkeys(NAMED, 3))
    result = score([case, Case(None, _verdict(None), None, 0.01, dict.fromkeys(NAMED))])

    assert set(NAMED) == set(result["baselines"])
    assert all(keys <= set(each) for each in [result, *result["baselines"].values()])


def test_right_rank_wrong_cause_counts_for_rank_and_top_three_only():
    case = Case(TRUTH, _verdict(2, "power", others=("thermal",)), 2.0, 0.0)
    result = score([case])

    assert (1.0, 0.0, 1.0) == tuple(
        result[key]["value"] for key in ("rank_top1", "cause_top1", "cause_top3")
    )


def test_an_accusation_in_a_healthy_run_costs_precision_and_pages():
    cases = [
        Case(TRUTH, _verdict(2), 1.0, 0.0),
        Case(None, _verdict(1), None, 73.0),
        Case(None, _verdict(1, tier="record"), None, 73.0),
    ]
    result = score(cases)

    assert (1, 3) == (result["precision"]["count"], result["precision"]["of"])
    assert 5.0 == pytest.approx(result["false_pages_per_node_month"]["value"])
    assert 1.0 == result["recall"]["value"]


def test_no_alarm_in_a_node_month_bounds_the_rate_at_three():
    result = score([Case(None, _verdict(None), None, 730.0)])

    assert 3.0 == pytest.approx(result["false_pages_per_node_month_upper95"]["value"], abs=0.01)
    assert 3.0 == pytest.approx(poisson_upper(0), abs=0.01)


def test_a_fault_on_a_node_is_found_by_any_of_its_ranks():
    truth = {"rank": None, "node": "node-2", "cause": "thermal"}

    assert 1.0 == score([Case(truth, _verdict(2), None, 0.0)])["rank_top1"]["value"]


def test_nothing_scored_gives_none_and_no_division_by_zero():
    result = score([])

    assert (None, None, None) == (
        result["precision"]["value"], result["ece"]["value"], result["f1"]["value"],
    )  # fmt: skip


def test_wilson_interval_of_19_of_20_is_the_published_one():
    low, high = rate(19, 20)["interval"]

    assert (0.764, 0.991) == (pytest.approx(low, abs=0.001), pytest.approx(high, abs=0.001))


def test_confident_and_always_right_is_calibrated():
    assert 0.0 == pytest.approx(calibration_error([(1.0, True)] * 5))
    assert 0.5 == pytest.approx(calibration_error([(0.5, True)] * 5))


def test_a_slow_rank_is_detected_within_seconds_of_its_onset(synthetic, fault):
    run = synthetic(faults=[fault("thermal", 2)]).run()
    delay = detection_delay(run, TRUTH)

    assert 0.5 <= delay <= 3.0


def test_a_frozen_rank_is_detected_when_the_collective_is_stalled(synthetic, fault):
    run = synthetic(faults=[fault("freeze", 2, first=80)]).run()
    delay = detection_delay(run, TRUTH | {"cause": "freeze"})

    assert 3.0 <= delay <= 6.0


def test_a_healthy_run_is_never_detected(synthetic):
    assert detection_delay(synthetic(telemetry=False).run(), TRUTH) is None


def test_a_prefix_knows_nothing_of_the_end(synthetic):
    run = synthetic().run()
    begun = prefix(run, run.windows["start"].min() + 2.0)

    assert not {"ended", "outcome"} & set(begun.meta)
    assert begun.windows["end"].max() <= run.windows["start"].min() + 2.0


def test_the_slowest_step_baseline_always_accuses(synthetic, fault):
    grid = align(synthetic(faults=[fault("compute", 2, 2.0, 20)]).run())
    answers = trivial_answers(grid, seed=1)

    assert (None, 2, 3) == (answers["never"], answers["slowest_step"], answers["last_rank"])
    assert answers == trivial_answers(grid, seed=1)


def test_a_real_verdict_can_be_scored(synthetic, fault):
    run = synthetic(faults=[fault("thermal", 2)]).run()
    verdict = verdict_json(diagnose(run).verdict)

    assert 1.0 == score([Case(TRUTH, verdict, 1.0, 0.0)])["cause_top1"]["value"]


@pytest.mark.parametrize(("node", "right"), [("node-0", True), ("node-1", True), ("node-2", False)])
def test_a_link_of_several_nodes_is_right_for_each_of_them(node, right):
    culprit = {"scope": "link", "node": None, "rank": None, "link": "node-0 -- node-1 -- node-3"}

    assert right == is_right({"scope": "link", "rank": None, "node": node}, culprit)


# Figures by difficulty: who counts as slow, and whose runs a row is about.


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
