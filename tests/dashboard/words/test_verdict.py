"""What a verdict says first, whatever its kind."""

import dataclasses
from typing import Any

import pytest

from lockstep.dashboard.shapes import Severity, Span
from lockstep.dashboard.words import verdict
from tests.dashboard.words.verdicts import (
    BROKEN,
    CULPRIT,
    HEALTHY,
    HUNG,
    LINK,
    NODE,
    RACK,
    ROW,
    SLOW,
    STAGES,
    UNIFORM,
    UNKNOWN,
)
from tests.dashboard.words.verdicts import verdict as made


@pytest.mark.parametrize(
    ("told", "severity"),
    [
        (HEALTHY, Severity.OK),
        (STAGES, Severity.OK),
        (SLOW, Severity.CRITICAL),
        (NODE, Severity.CRITICAL),
        (HUNG, Severity.CRITICAL),
        (LINK, Severity.CRITICAL),
        (RACK, Severity.WARNING),
        (UNIFORM, Severity.WARNING),
        (UNKNOWN, Severity.UNKNOWN),
        (BROKEN, Severity.WARNING),
        ({}, Severity.UNKNOWN),
    ],
)
def test_a_page_is_as_alarmed_as_the_verdict(told: dict[str, Any], severity: Severity) -> None:
    assert severity == verdict.severity(told)


@pytest.mark.parametrize("told", [HEALTHY, SLOW, HUNG, LINK, RACK, NODE, UNKNOWN, UNIFORM])
def test_the_first_sentence_is_the_verdicts_own(told: dict[str, Any]) -> None:
    assert told["sentence"] == verdict.headline(told, ROW).text


def test_without_a_verdict_the_command_is_told() -> None:
    said = verdict.headline(None, ROW)
    assert (Severity.UNKNOWN, "lockstep analyze 'runs/gpt a'") == (said.severity, said.command)
    assert said.text.startswith("Run gpt-a was not analyzed")


def test_a_live_run_without_an_archive_is_for_watch() -> None:
    row = dataclasses.replace(ROW, folder="")
    assert verdict.headline(None, row, live=True).command.startswith("lockstep watch")


def test_a_verdict_without_words_says_so() -> None:
    assert "has no sentence" in verdict.headline(BROKEN, ROW).text


@pytest.mark.parametrize(
    ("told", "name"),
    [
        (SLOW, "rank 2 (node-1, GPU 0)"),
        (NODE, "node-1"),
        (LINK, "the link node-0 – node-1"),
        (RACK, "leaf leaf-3"),
    ],
)
def test_a_culprit_is_named_by_what_it_is(told: dict[str, Any], name: str) -> None:
    assert name == verdict.who(told["culprits"][0])


def test_a_nodes_own_link_is_named_by_the_node() -> None:
    assert "the link of node-1" == verdict.who({"scope": "link", "node": "node-1", "link": None})


def test_nobody_has_no_name() -> None:
    assert "somebody without a name" == verdict.who({})


def test_a_hang_says_who_is_missing_from_what() -> None:
    expected = (
        "The run hangs in dp-all-reduce number 82 of group dp: rank 1 is missing, and everybody"
        " else in the group waits."
    )
    assert expected == verdict.hang(HUNG)


def test_many_missing_ranks_are_counted() -> None:
    told = made(hang={"group": "dp", "sequence": 1, "op": "x", "missing_ranks": list(range(9))})
    assert "ranks 0, 1, 2, 3 and 5 more are missing" in verdict.hang(told)


def test_a_hang_of_which_nobody_knows_who_is_missing() -> None:
    told = made(hang={"group": "dp", "sequence": None, "op": None, "missing_ranks": []})
    assert "The run hangs in a collective of group dp; who is missing is unknown." == (
        verdict.hang(told)
    )


def test_nothing_hangs_in_a_healthy_run() -> None:
    assert "" == verdict.hang(HEALTHY)


def test_all_ranks_of_an_accused_node_are_marked() -> None:
    of_node = {"node-0": (0, 1), "node-1": (2, 3)}
    assert (2, 3) == verdict.named(NODE, of_node)
    assert (2,) == verdict.named(SLOW, of_node)
    assert (1,) == verdict.named(HUNG, of_node)
    assert () == verdict.named(LINK, of_node)
    assert () == verdict.named(None, of_node)


def test_confidence_is_that_of_the_least_sure_culprit() -> None:
    told = made(culprits=[{"confidence": 0.9}, {"confidence": 0.6}, {}])
    assert 0.6 == verdict.confidence(told)
    assert verdict.confidence(HEALTHY) is None


def test_confidence_in_the_place_is_told_apart_from_that_in_the_cause() -> None:
    told = made(culprits=[{"confidence": 0.4, "place_confidence": 0.99}])
    assert (0.99, 0.4) == (verdict.place_confidence(told), verdict.confidence(told))
    assert verdict.place_confidence(made(culprits=[{"confidence": 0.9}])) is None


# Numbers of one quantity say over which range each is taken.

ONSET = 1763464000.0
"""2025-11-18T11:06:40Z."""
LATE = made(culprits=[CULPRIT | {"since": "2025-11-18T11:06:40Z", "from_step": 100}])
AROUND = Span(ONSET - 100.0, ONSET + 100.0)


def test_the_range_of_the_verdict_stands_beside_that_of_the_charts() -> None:
    text = verdict.measured(LATE, AROUND)
    assert "Measured from 2025-11-18 11:05:00 UTC to 2025-11-18 11:08:20 UTC" in text
    assert (
        "The verdict counts rank 2 (node-1, GPU 0) from step 100 (2025-11-18 11:06:40 UTC) on:"
        " 1.50×; medians that include the time before are lower." in text
    )


def test_a_range_from_the_onset_on_has_nothing_to_explain() -> None:
    assert "verdict" not in verdict.measured(LATE, Span(ONSET - 0.5, ONSET + 100.0))


def test_without_a_culprit_or_its_moment_only_the_range_is_told() -> None:
    for told in (None, HEALTHY, BROKEN, made(culprits=[CULPRIT | {"since": "soon"}]), SLOW):
        assert verdict.onset(told, AROUND) is None
        assert verdict.measured(told, AROUND).startswith("Measured from ")


# What else a verdict says.


def test_structure_is_told_with_its_share() -> None:
    assert [["stage-imbalance", 0.12, "stage 3"]] == verdict.structure(STAGES).to_numpy().tolist()


def test_missing_parts_are_told() -> None:
    assert ["operations: there are none"] == verdict.missing(UNKNOWN)[verdict.MISSING[0]].tolist()


def test_who_was_let_go_is_told_with_the_reason() -> None:
    told = made(rejected=[{"rank": 0, "why": "waits for rank 2"}])
    assert [[0, "waits for rank 2"]] == verdict.rejected(told).to_numpy().tolist()


def test_a_deviation_says_whether_it_costs_time() -> None:
    one = {"node": "node-1", "gpu": 0, "since": "x", "deviation": 6.1, "text": "hot"}
    told = made(anomalies=[one | {"costs_time": False}, one | {"costs_time": True}])
    assert ["not yet", "yes"] == verdict.anomalies(told)["costs time"].tolist()


def test_an_earlier_culprit_is_told_in_a_sentence() -> None:
    assert ("node-1 was a culprit.",) == verdict.before(
        {"recurrence": [{"text": "node-1 was a culprit"}]}
    )


def test_coverage_and_what_was_made_up_are_told() -> None:
    told = made(coverage=0.5, provenance=["emulated devices"],
                   lost_per_day={"gpu_hours": 72.0, "goes_on": True})  # fmt: skip
    expected = (
        "50% of the expected windows of all ranks answered. Made up in this run: emulated devices."
        " If it goes on, 72 GPU-hours a day are lost."
    )
    assert expected == verdict.how_sure(told)


def test_no_coverage_is_said_to_be_none() -> None:
    assert "How much of the run answered is unknown." == verdict.how_sure({})


def test_a_healthy_verdict_has_nothing_else_to_say() -> None:
    frames = (
        verdict.rejected,
        verdict.structure,
        verdict.anomalies,
        verdict.missing,
    )
    assert [True] * 4 == [make(HEALTHY).empty for make in frames]


def test_a_verdict_edited_by_hand_breaks_nothing() -> None:
    assert [1, 0, 1, 0] == [
        len(make(BROKEN))
        for make in (
            verdict.rejected,
            verdict.structure,
            verdict.anomalies,
            verdict.missing,
        )
    ]
    assert "nan" not in verdict.how_sure(BROKEN)
