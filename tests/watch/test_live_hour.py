"""A live hour with churn: each real fault is told once, and nobody is called for anything else.

`python -m tests.benchmarks live_hour` gives the figures, and how fast reports are written.
"""

import logging

import pytest

from tests.watch.live_hour import CHURN, EXPECTED, NODES, REMOVED, RENAMED, LiveHour

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hour(tmp_path_factory) -> LiveHour:
    logging.disable(logging.CRITICAL)
    try:
        lived = LiveHour(tmp_path_factory.mktemp("hour"))
        lived.live(1.0)
    finally:
        logging.disable(logging.NOTSET)
    return lived


def test_each_fault_is_told_once_and_nothing_else_is(hour: LiveHour) -> None:
    assert EXPECTED == hour.faults
    assert [] == hour.wrong


def test_of_a_job_that_is_killed_without_a_word_a_warning_tells_and_nobody_is_called(
    hour: LiveHour,
) -> None:
    [warning] = hour.warnings

    assert warning.startswith("Run preempted ended at ")


def test_what_is_over_is_told_within_minutes_and_with_its_length(hour: LiveHour) -> None:
    slow, stood = hour.end_of("thermal"), hour.end_of("freeze")

    assert 1200.0 <= slow[0] <= 1200.0 + 180.0
    assert 2160.0 <= stood[0] <= 2160.0 + 60.0
    assert abs(300.0 - slow[1]) <= 60.0
    assert abs(60.0 - stood[1]) <= 20.0


def test_what_is_over_commands_nothing(hour: LiveHour) -> None:
    ends = [one.words for one in hour.alertmanager.told if not one.firing]

    assert ends
    assert not any(words.get("command") or words.get("action") for words in ends)


def test_nothing_is_expected_of_nodes_that_were_taken_away_or_renamed(hour: LiveHour) -> None:
    expected = {node for (node,) in hour._watch._cycles.memory.inventory.nodes}
    gone = {f"node-{row * NODES + rank}" for row in (REMOVED, RENAMED) for rank in range(NODES)}

    assert not expected & gone
    assert {f"node-{CHURN * NODES + rank}" for rank in range(NODES)} <= expected


def test_every_page_has_its_report(hour: LiveHour) -> None:
    out = hour.folder / "out"

    assert all((out / one.words["archive"] / "report.html").exists() for one in hour.pages)
