"""What a verdict says first, whatever its kind."""

import dataclasses
from typing import Any

import pytest

from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.words import verdict
from tests.dashboard.words.verdicts import (
    BROKEN,
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
    assert said.text.startswith("Nobody analyzed run gpt-a")


def test_a_live_run_without_an_archive_is_for_watch() -> None:
    row = dataclasses.replace(ROW, folder="")
    assert verdict.headline(None, row, live=True).command.startswith("lockstep watch")


def test_a_verdict_without_words_says_so() -> None:
    assert "says nothing in words" in verdict.headline(BROKEN, ROW).text


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
    assert "The run hangs in a collective of group dp; who is missing is not known." == (
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
