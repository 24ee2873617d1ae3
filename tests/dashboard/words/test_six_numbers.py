"""The six numbers of the first page."""

import dataclasses

import numpy as np

from lockstep.dashboard.shapes import FLEET_METRICS, FleetSnapshot
from lockstep.dashboard.words.now import Number, numbers
from tests.dashboard.words.rows import ARCHIVE, FOUND, LIVE, RUN, found, run

FLEET = FleetSnapshot(
    FLEET_METRICS[0], 0.0, np.array(["node-0", "node-0", "node-1", "node-1", "node-2"]),
    np.array([0, 1, 0, 1, 0], np.int32), np.array([0, 1, 2, 3, -1], np.int32),
    np.array(["gpt-a"] * 4 + [""]),
    np.array([1.0, np.nan, 1.5, 1.0, np.nan], np.float32),
)  # fmt: skip


def six(
    *given: object, fleet: FleetSnapshot | None = FLEET, answer: object = LIVE
) -> dict[str, Number]:
    runs = [each for each in given if hasattr(each, "workload")]
    found = [each for each in given if hasattr(each, "finding")]
    return {one.label: one for one in numbers(runs, found, fleet, answer)}  # type: ignore[arg-type]


def test_there_are_six() -> None:
    assert 6 == len(six(RUN))


def test_a_gpu_that_is_named_idle_or_not_known_is_not_healthy() -> None:
    shown = six(RUN, FOUND)["Healthy GPUs"]
    assert ("2", "of 5, 1 idle, 1 not known", True) == (shown.value, shown.delta, shown.bad)


def test_where_nothing_is_known_of_any_there_is_no_number() -> None:
    dark = dataclasses.replace(FLEET, values=np.full(5, np.nan, np.float32))
    shown = six(RUN, fleet=dark)["Healthy GPUs"]
    assert ("–", "of 5, 1 idle, 4 not known", False) == (shown.value, shown.delta, shown.bad)


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
    silent = dataclasses.replace(FLEET, silent=("node-2",))
    assert "of 5, 2 not known" == six(RUN, fleet=silent)["Healthy GPUs"].delta


def test_a_finding_about_a_node_names_all_of_its_gpus() -> None:
    assert "1" == six(RUN, found(gpu=None, rank=None))["Healthy GPUs"].value


def test_an_ended_finding_names_nobody() -> None:
    assert "3" == six(RUN, found(open=False))["Healthy GPUs"].value


def test_on_cpu_places_are_ranks() -> None:
    ranks = dataclasses.replace(FLEET, gpus=np.full(5, -1, np.int32))
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
