"""Scores by cause: macro accuracy, recall of unknown, two faults in one run."""

from lockstep.evaluation.scoring.score import Case, macro, score, score_causes


def _fault(rank, cause):
    return {"rank": rank, "node": "node-0", "cause": cause, "from_step": 80}


def _verdict(*named):
    culprits = [
        {"rank": rank, "node": "node-0", "cause": cause, "confidence": 0.9, "tier": "page"}
        for rank, cause in named
    ]
    return {"culprits": culprits, "alternatives": []}


def _case(truths, *named, baselines=None):
    first, *more = truths
    return Case(first, _verdict(*named), None, 0.0, baselines or {}, more=tuple(more))


def test_macro_accuracy_weighs_causes_alike_however_often_they_come():
    cases = [_case([_fault(1, "ecc")], (1, "ecc"))] * 3 + [_case([_fault(1, "xid")], (1, "ecc"))]
    result = score_causes(cases)

    assert (0.5, 2) == (result["cause_macro"]["value"], result["cause_macro"]["causes"])
    assert {"ecc": 1} == result["by_cause"]["xid"]["instead"]


def test_a_fault_that_is_not_found_has_no_right_cause():
    row = score_causes([_case([_fault(1, "ecc")])])["by_cause"]["ecc"]

    assert (0.0, 0.0, None) == tuple(
        row[key]["value"] for key in ("found", "cause", "cause_of_found")
    )


def test_unknown_is_recalled_by_saying_so_about_the_right_rank():
    cases = [
        _case([_fault(1, "unknown")], (1, "unknown")),
        _case([_fault(1, "unknown")], (1, "thermal")),
        _case([_fault(1, "unknown")]),
    ]
    result = score_causes(cases)

    assert (1, 3) == (result["unknown_recall"]["count"], result["unknown_recall"]["of"])
    assert (1, 2) == (result["unknown_named"]["count"], result["unknown_named"]["of"])


def test_of_two_faults_both_must_be_named_and_each_counts_for_recall():
    two = [_fault(1, "ecc"), _fault(2, "data")]
    cases = [_case(two, (1, "ecc"), (2, "data")), _case(two, (2, "data"))]

    assert (1, 2) == tuple(score_causes(cases)["both_named"][key] for key in ("count", "of"))
    assert (3, 4) == tuple(score(cases)["recall"][key] for key in ("count", "of"))
    assert (3, 3) == tuple(score(cases)["precision"][key] for key in ("count", "of"))


def test_a_cause_counts_only_for_the_fault_at_its_place():
    swapped = _case([_fault(1, "ecc"), _fault(2, "data")], (1, "data"), (2, "ecc"))

    assert 0.0 == score([swapped])["cause_top1"]["value"]


def test_a_rule_may_accuse_several_ranks():
    case = _case([_fault(1, "ecc")], baselines={"rule": [1, 4], "quiet": []})
    rules = score([case])["baselines"]

    assert (1, 2) == tuple(rules["rule"]["precision"][key] for key in ("count", "of"))
    assert 0.0 == rules["quiet"]["recall"]["value"]


def test_the_mean_of_few_right_answers_has_a_wide_interval():
    few, many = ({"value": 1.0, "count": n, "of": n} for n in (3, 300))

    assert 0.75 < macro([few, few])["interval"][0] < 0.85
    assert 0.99 < macro([many, many])["interval"][0] < 1.0
    assert {"value": None, "causes": 0, "interval": None} == macro([])
