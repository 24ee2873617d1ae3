"""What else a verdict says."""

from lockstep.dashboard.words import verdict as words
from tests.dashboard.words.verdicts import BROKEN, HEALTHY, STAGES, UNKNOWN, verdict


def test_structure_is_told_with_its_share() -> None:
    assert [["stage-imbalance", 0.12, "stage 3"]] == words.structure(STAGES).to_numpy().tolist()


def test_missing_parts_are_told() -> None:
    assert ["operations: there are none"] == words.missing(UNKNOWN)[words.MISSING[0]].tolist()


def test_who_was_let_go_is_told_with_the_reason() -> None:
    told = verdict(rejected=[{"rank": 0, "why": "waits for rank 2"}])
    assert [[0, "waits for rank 2"]] == words.rejected(told).to_numpy().tolist()


def test_a_deviation_says_whether_it_costs_time() -> None:
    one = {"node": "node-1", "gpu": 0, "since": "x", "deviation": 6.1, "text": "hot"}
    told = verdict(anomalies=[one | {"costs_time": False}, one | {"costs_time": True}])
    assert ["not yet", "yes"] == words.anomalies(told)["costs time"].tolist()


def test_an_earlier_culprit_is_told_in_a_sentence() -> None:
    assert ("node-1 was a culprit.",) == words.before(
        {"recurrence": [{"text": "node-1 was a culprit"}]}
    )


def test_coverage_and_what_was_made_up_are_told() -> None:
    told = verdict(coverage=0.5, provenance=["emulated devices"],
                   lost_per_day={"gpu_hours": 72.0, "goes_on": True})  # fmt: skip
    expected = (
        "50% of the expected windows of all ranks answered. Made up in this run: emulated devices."
        " If it goes on, 72 GPU-hours a day are lost."
    )
    assert expected == words.how_sure(told)


def test_no_coverage_is_said_to_be_none() -> None:
    assert "How much of the run answered is not told." == words.how_sure({})


def test_a_healthy_verdict_has_nothing_else_to_say() -> None:
    frames = (
        words.rejected,
        words.structure,
        words.anomalies,
        words.missing,
    )
    assert [True] * 4 == [make(HEALTHY).empty for make in frames]


def test_a_verdict_edited_by_hand_breaks_nothing() -> None:
    assert [1, 0, 1, 0] == [
        len(make(BROKEN))
        for make in (
            words.rejected,
            words.structure,
            words.anomalies,
            words.missing,
        )
    ]
    assert "nan" not in words.how_sure(BROKEN)
