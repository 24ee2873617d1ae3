"""What a verdict says first, whatever its kind."""

import dataclasses
from typing import Any

import pytest

from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.words import verdict as words
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
    assert severity == words.severity(told)


@pytest.mark.parametrize("told", [HEALTHY, SLOW, HUNG, LINK, RACK, NODE, UNKNOWN, UNIFORM])
def test_the_first_sentence_is_the_verdicts_own(told: dict[str, Any]) -> None:
    assert told["sentence"] == words.headline(told, ROW).text


def test_without_a_verdict_the_command_is_told() -> None:
    said = words.headline(None, ROW)
    assert (Severity.UNKNOWN, "lockstep analyze 'runs/gpt a'") == (said.severity, said.command)
    assert said.text.startswith("Nobody analyzed run gpt-a")


def test_a_live_run_without_an_archive_is_for_watch() -> None:
    row = dataclasses.replace(ROW, folder="")
    assert words.headline(None, row, live=True).command.startswith("lockstep watch")


def test_a_verdict_without_words_says_so() -> None:
    assert "says nothing in words" in words.headline(BROKEN, ROW).text


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
    assert name == words.who(told["culprits"][0])


def test_a_nodes_own_link_is_named_by_the_node() -> None:
    assert "the link of node-1" == words.who({"scope": "link", "node": "node-1", "link": None})


def test_nobody_has_no_name() -> None:
    assert "somebody without a name" == words.who({})


def test_a_hang_says_who_is_missing_from_what() -> None:
    expected = (
        "The run hangs in dp-all-reduce number 82 of group dp: rank 1 is missing, and everybody"
        " else in the group waits."
    )
    assert expected == words.hang(HUNG)


def test_many_missing_ranks_are_counted() -> None:
    told = made(hang={"group": "dp", "sequence": 1, "op": "x", "missing_ranks": list(range(9))})
    assert "ranks 0, 1, 2, 3 and 5 more are missing" in words.hang(told)


def test_a_hang_of_which_nobody_knows_who_is_missing() -> None:
    told = made(hang={"group": "dp", "sequence": None, "op": None, "missing_ranks": []})
    assert "The run hangs in a collective of group dp; who is missing is not known." == (
        words.hang(told)
    )


def test_nothing_hangs_in_a_healthy_run() -> None:
    assert "" == words.hang(HEALTHY)


def test_all_ranks_of_an_accused_node_are_marked() -> None:
    of_node = {"node-0": (0, 1), "node-1": (2, 3)}
    assert (2, 3) == words.named(NODE, of_node)
    assert (2,) == words.named(SLOW, of_node)
    assert (1,) == words.named(HUNG, of_node)
    assert () == words.named(LINK, of_node)
    assert () == words.named(None, of_node)


def test_confidence_is_that_of_the_least_sure_culprit() -> None:
    told = made(culprits=[{"confidence": 0.9}, {"confidence": 0.6}, {}])
    assert 0.6 == words.confidence(told)
    assert words.confidence(HEALTHY) is None


def test_confidence_in_the_place_is_told_apart_from_that_in_the_cause() -> None:
    told = made(culprits=[{"confidence": 0.4, "place_confidence": 0.99}])
    assert (0.99, 0.4) == (words.place_confidence(told), words.confidence(told))
    assert words.place_confidence(made(culprits=[{"confidence": 0.9}])) is None
