"""Is anything holding training back? What nobody looked at is not healthy."""

import dataclasses
import math
from collections.abc import Sequence

import pytest

from lockstep.dashboard.shapes import Answer, FindingRow, FleetSnapshot, RunRow, Severity
from lockstep.dashboard.words import now
from lockstep.dashboard.words.now import spoken
from lockstep.dashboard.words.said import Said
from tests.dashboard.words.rows import ARCHIVE, FOUND, LIVE, RUN, found, run, told

TWO = (RUN, run("gpt-b"))


FLEET = told("gpt-a", "gpt-b")


def headline(
    runs: Sequence[RunRow], findings: Sequence[FindingRow], answer: Answer,
    fleet: FleetSnapshot | None = FLEET,
) -> Said:  # fmt: skip
    return now.headline(runs, findings, answer, fleet)


def test_nothing_wrong_is_said_with_what_was_looked_at() -> None:
    said = headline(TWO, (), LIVE)
    expected = "Nothing holds training back, of 2 runs on 100 nodes; looked at 7.00 s ago."
    assert (expected, Severity.OK) == (said.text, said.severity)


def test_the_worst_open_finding_is_the_answer() -> None:
    others = (found(severity=Severity.WARNING, sentence="b", slowdown=9.0),
              found(open=False, sentence="c", slowdown=7.0),
              found(slowdown=1.2, sentence="d"))  # fmt: skip
    said = headline((RUN,), (*others, FOUND), LIVE)
    assert ("Rank 2 is too hot. 2 more findings are open.", Severity.CRITICAL) == (
        said.text,
        said.severity,
    )


def test_of_several_runs_it_is_told_which_is_meant() -> None:
    assert "Run gpt-a: Rank 2 is too hot." == headline(TWO, (FOUND,), LIVE).text


def test_an_open_finding_does_not_hide_silent_nodes() -> None:
    silent = dataclasses.replace(LIVE, nodes=(100, 97))
    assert headline((RUN,), (FOUND,), silent).text.endswith("3 of 100 nodes do not answer.")


def test_a_finding_without_words_is_put_into_words() -> None:
    said = headline((RUN,), (found(sentence=""),), LIVE)
    assert "node-1 holds run gpt-a back: thermal." == said.text


def test_an_ended_finding_holds_nothing_back() -> None:
    assert Severity.OK == headline(TWO, (found(open=False),), LIVE).severity


def test_of_recorded_runs_it_is_told_how_many_were_held_back() -> None:
    mild = found(run="gpt-b", open=False, slowdown=9.0, sentence="b")
    stopped = found(open=False, slowdown=None, cause="freeze", sentence="Rank 1 stopped the run.")
    said = headline((RUN, run("gpt-b"), run("gpt-c")), (mild, stopped), ARCHIVE)
    expected = (
        "2 of 3 runs were held back. The worst, from 2023-11-14 22:21:40 UTC on: Run gpt-a: Rank 1"
        " stopped the run."
    )
    assert (expected, Severity.CRITICAL) == (said.text, said.severity)


def test_the_finding_of_the_sentence_is_known_for_its_links() -> None:
    ended = found(open=False)
    assert FOUND == spoken((ended, FOUND), LIVE)
    assert spoken((ended,), LIVE) is None
    assert ended == spoken((ended,), ARCHIVE)
    assert spoken((), ARCHIVE) is None


def test_of_one_recorded_run_its_culprit_is_told() -> None:
    assert FOUND.sentence == headline((RUN,), (found(open=False),), ARCHIVE).text


def test_a_run_that_nobody_analyzed_is_not_healthy() -> None:
    said = headline((RUN, run("gpt-b", status=None, folder="runs/b b")), (), ARCHIVE)
    assert Severity.UNKNOWN == said.severity
    assert "1 of 2 runs was not analyzed" in said.text
    assert "lockstep analyze 'runs/b b'" == said.command


def test_a_silent_node_is_not_healthy() -> None:
    said = headline(TWO, (), dataclasses.replace(LIVE, nodes=(100, 98)))
    assert Severity.UNKNOWN == said.severity
    assert "2 of 100 nodes do not answer" in said.text


def test_an_unknown_verdict_is_not_healthy() -> None:
    said = headline((RUN, run("gpt-b", status="unknown")), (), LIVE)
    assert (Severity.UNKNOWN, True) == (said.severity, "the verdict is unknown" in said.text)


def test_a_run_that_is_slow_and_nobody_is_to_blame_is_told() -> None:
    slow = run("gpt-b", status="degraded", sentence="Slower, and no node is to blame.")
    said = headline((RUN, slow), (), LIVE)
    assert ("Run gpt-b: Slower, and no node is to blame.", Severity.WARNING) == (
        said.text,
        said.severity,
    )


def test_a_hanging_run_without_a_finding_is_told() -> None:
    hung = run(state="hung", status=None, sentence=None)
    assert ("Run gpt-a is hung.", Severity.WARNING) == (
        headline((hung,), (), LIVE).text,
        headline((hung,), (), LIVE).severity,
    )


def test_one_archive_says_what_its_run_says() -> None:
    ended = run(state="ended")
    assert (RUN.sentence, Severity.OK) == (
        headline((ended,), (), ARCHIVE).text,
        headline((ended,), (), ARCHIVE).severity,
    )
    unknown = run(status="unknown", sentence="Unknown: too few steps.")
    assert "Unknown: too few steps." == headline((unknown,), (), ARCHIVE).text


def test_a_live_source_is_about_the_runs_that_go_on() -> None:
    ended = run("gpt-old", state="ended", status="degraded")
    assert "of 1 run on" in headline((RUN, ended), (), LIVE).text


def test_when_no_run_goes_on_the_newest_is_named() -> None:
    said = headline((run("gpt-old", state="ended"),), (), LIVE)
    assert "No run goes on now; the newest of 1 run in this range is gpt-old (ended)." == said.text
    assert Severity.NOTE == said.severity


def test_without_any_run_the_next_step_is_told() -> None:
    assert "lockstep run gpt" == headline((), (), ARCHIVE).command
    assert "Data health" in headline((), (), LIVE).text
    assert Severity.UNKNOWN == headline((), (), LIVE).severity


@pytest.mark.parametrize(
    ("fleet", "doubt"),
    [
        (told("gpt-a", unknown=4), "of 4 of 4 ranks the own time is not known"),
        (told("gpt-a", unknown=1), "of 1 of 4 ranks the own time is not known"),
        (told("gpt-b"), "of 4 of 4 ranks the own time is not known"),
        (None, "nobody told the own time of any rank"),
    ],
)
def test_a_run_of_which_own_times_are_not_known_is_not_said_to_be_well(
    fleet: FleetSnapshot | None, doubt: str
) -> None:
    said = headline((RUN,), (), LIVE, fleet)
    assert (Severity.UNKNOWN, True) == (said.severity, doubt in said.text)


@pytest.mark.parametrize(
    ("answer", "doubt"),
    [
        (dataclasses.replace(LIVE, now=LIVE.now + 600.0), "the newest number is 10 min old"),
        (dataclasses.replace(LIVE, nodes=(0, 0), scrape_seconds=math.nan), "no node is known"),
        (dataclasses.replace(LIVE, missing=("half of it",)), "not found: half of it"),
    ],
)
def test_what_is_old_or_not_whole_is_not_well(answer: Answer, doubt: str) -> None:
    said = headline((RUN,), (), answer)
    assert (Severity.UNKNOWN, True) == (said.severity, doubt in said.text)


def test_a_status_that_nobody_knows_is_not_healthy() -> None:
    assert Severity.UNKNOWN == headline((run(status="splendid"),), (), LIVE).severity


def test_a_run_below_its_baseline_is_not_well_though_nobody_is_named() -> None:
    slower = dataclasses.replace(RUN, baseline=0.85)
    said = headline((slower, run("gpt-b")), (), LIVE)
    expected = (
        "Run gpt-a makes 0.85x of its baseline's steps per second, and nobody is named: look for"
        " what changed on all nodes."
    )
    assert (expected, Severity.WARNING) == (said.text, said.severity)
    both = headline((slower, dataclasses.replace(run("gpt-b"), baseline=0.8)), (), LIVE)
    assert both.text.startswith("Run gpt-b makes 0.80x")
    assert both.text.endswith("1 more run is below its baseline.")


@pytest.mark.parametrize("ratio", [None, 0.9, 1.2])
def test_a_run_at_its_baseline_or_without_one_is_well(ratio: float | None) -> None:
    said = headline((dataclasses.replace(RUN, baseline=ratio), run("gpt-b")), (), LIVE)
    assert said.severity is Severity.OK


def test_who_holds_a_run_back_goes_before_its_baseline() -> None:
    assert headline((dataclasses.replace(RUN, baseline=0.5),), (FOUND,), LIVE).text == (
        "Rank 2 is too hot."
    )
