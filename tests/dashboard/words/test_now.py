"""Is anything holding training back? What nobody looked at is not healthy."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest

from lockstep.dashboard.shapes import (
    FLEET_METRICS,
    Answer,
    FindingRow,
    FleetSnapshot,
    RunRow,
    Severity,
)
from lockstep.dashboard.words import now
from lockstep.dashboard.words.now import Number, numbers, spoken
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
    expected = "Nothing holds training back in 2 runs on 100 nodes; looked at 7.00 s ago."
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
    assert "in 1 run on" in headline((RUN, ended), (), LIVE).text


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
        (told("gpt-a", unknown=4), "the own time of 4 of 4 ranks is unknown"),
        (told("gpt-a", unknown=1), "the own time of 1 of 4 ranks is unknown"),
        (told("gpt-b"), "the own time of 4 of 4 ranks is unknown"),
        (None, "no rank's own time was reported"),
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
        "Run gpt-a makes 0.85x of its baseline's steps per second, and no node is named: look for"
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


# The six numbers of the first page.

SIX_FLEET = FleetSnapshot(
    FLEET_METRICS[0], 0.0, np.array(["node-0", "node-0", "node-1", "node-1", "node-2"]),
    np.array([0, 1, 0, 1, 0], np.int32), np.array([0, 1, 2, 3, -1], np.int32),
    np.array(["gpt-a"] * 4 + [""]),
    np.array([1.0, np.nan, 1.5, 1.0, np.nan], np.float32),
)  # fmt: skip


def six(
    *given: object, fleet: FleetSnapshot | None = SIX_FLEET, answer: object = LIVE
) -> dict[str, Number]:
    runs = [each for each in given if hasattr(each, "workload")]
    found = [each for each in given if hasattr(each, "finding")]
    return {one.label: one for one in numbers(runs, found, fleet, answer)}  # type: ignore[arg-type]


def test_there_are_six() -> None:
    assert 6 == len(six(RUN))


def test_a_gpu_that_is_named_idle_or_not_known_is_not_healthy() -> None:
    shown = six(RUN, FOUND)["Healthy GPUs"]
    assert ("2", "of 5, 1 idle, 1 unknown", True) == (shown.value, shown.delta, shown.bad)


def test_where_nothing_is_known_of_any_there_is_no_number() -> None:
    dark = dataclasses.replace(SIX_FLEET, values=np.full(5, np.nan, np.float32))
    shown = six(RUN, fleet=dark)["Healthy GPUs"]
    assert ("–", "of 5, 1 idle, 4 unknown", False) == (shown.value, shown.delta, shown.bad)


def test_ranks_of_a_run_that_nobody_judged_are_not_healthy_and_it_has_no_count_of_findings() -> (
    None
):
    shown = six(run(status="unknown"))
    assert ["–"] * 2 == [shown[label].value for label in ("Healthy GPUs", "Open findings")]
    shown = six(run(status=None), answer=ARCHIVE)
    assert ["–"] * 2 == [shown[label].value for label in ("Places named", "Findings")]


def test_the_worst_slowdown_says_of_how_many_runs_it_is_known() -> None:
    shown = six(RUN, run("b", slowdown=None))["Worst slowdown"]
    assert ("1.00x", "known of 1 of 2 runs") == (shown.value, shown.delta)


def test_a_gpu_of_a_silent_node_is_not_healthy() -> None:
    silent = dataclasses.replace(SIX_FLEET, silent=("node-2",))
    assert "of 5, 2 unknown" == six(RUN, fleet=silent)["Healthy GPUs"].delta


def test_a_finding_about_a_node_names_all_of_its_gpus() -> None:
    assert "1" == six(RUN, found(gpu=None, rank=None))["Healthy GPUs"].value


def test_an_ended_finding_names_nobody() -> None:
    assert "3" == six(RUN, found(open=False))["Healthy GPUs"].value


def test_on_cpu_places_are_ranks() -> None:
    ranks = dataclasses.replace(SIX_FLEET, gpus=np.full(5, -1, np.int32))
    assert "2" == six(RUN, found(gpu=None), fleet=ranks)["Healthy ranks"].value


def test_without_a_fleet_nobody_is_called_healthy() -> None:
    assert "–" == six(RUN, fleet=None)["Healthy GPUs"].value


def test_the_worst_slowdown_stands_beside_what_should_be() -> None:
    shown = six(RUN, run("b", slowdown=1.33))["Worst slowdown"]
    assert ("1.33x", "+33% step time", True) == (shown.value, shown.delta, shown.bad)


def test_nothing_analyzed_is_a_dash_and_no_zero() -> None:
    shown = six(run(slowdown=None, lost_gpu_hours=None))
    assert ["–"] * 3 == [
        shown[label].value for label in ("Worst slowdown", "Lost GPU time", "Not lost to culprits")
    ]


def test_what_was_lost_is_summed_and_taken_from_what_was_spent() -> None:
    lost = 4 * 1000.0 / 3600 / 4
    shown = six(run("a", lost_gpu_hours=lost), run("b", lost_gpu_hours=0.0))
    assert (f"{lost:.3g}", "88 %") == (
        shown["Lost (GPU-h)"].value,
        shown["Not lost to culprits"].value,
    )


def test_a_short_runs_loss_is_told_in_seconds() -> None:
    assert "36" == six(run(lost_gpu_hours=0.01))["Lost (GPU-s)"].value


def test_runs_that_go_on_are_counted_where_the_source_is_live() -> None:
    ended = run("b", state="ended")
    assert "1" == six(RUN, ended)["Runs active"].value
    assert "2" == six(RUN, ended, answer=ARCHIVE)["Runs"].value


def test_of_recorded_runs_who_is_named_is_counted_and_nobody_is_called_healthy() -> None:
    ended = (found(open=False), found(open=False, finding="f-2"), found(open=False, run="gpt-b"))
    shown = six(RUN, run("gpt-b"), run("gpt-c"), *ended, answer=ARCHIVE)
    assert "Healthy GPUs" not in shown
    named = shown["Places named"]
    assert ("2", "in 2 of 3 runs", True) == (named.value, named.delta, named.bad)
    assert ("3", True) == (shown["Findings"].value, shown["Findings"].bad)


def test_recorded_runs_without_a_finding_have_none() -> None:
    shown = six(RUN, answer=ARCHIVE)
    assert ("0", "0") == (shown["Places named"].value, shown["Findings"].value)


def test_open_findings_are_counted() -> None:
    shown = six(RUN, FOUND, found(open=False))["Open findings"]
    assert ("1", "of 2 seen", True) == (shown.value, shown.delta, shown.bad)
