"""What the sections of a report say."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lockstep.analyzer.report import figures
from lockstep.analyzer.report.document import document, title
from lockstep.analyzer.report.sections.advice import ADVICE, advice
from lockstep.analyzer.report.sections.supporting import reality
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.collector.contract.words import FAULT_CAUSES, Cause
from lockstep.workloads.faults.plan import BUILT


def section(tree: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in tree["sections"] if each["name"] == name)


def table(tree: dict[str, Any], name: str, title: str) -> list[list[Any]]:
    blocks = section(tree, name)["blocks"]
    return next(
        each["rows"] for each in blocks if each["block"] == "table" and title in each["title"]
    )


def test_the_title_names_who_and_why(
    straggler: Callable[..., Diagnosis], healthy: Diagnosis, hang: Diagnosis, empty: Diagnosis
) -> None:
    titles = [title(each.verdict) for each in (straggler(), healthy, hang, empty)]

    assert titles == [
        "Rank 2 on node-2 is 1.50x slower: thermal",
        "Nobody holds this run back",
        "Rank 1 on node-1 stopped: crash",
        "Nobody can be named",
    ]


def test_the_culprit_stands_out_of_its_peers(straggler: Callable[..., Diagnosis]) -> None:
    rows = table(document(straggler()), "lateness", "Ranks")

    assert [row[0] for row in rows if row[-1] == "culprit"] == [2]
    assert rows[2][5] == pytest.approx(1.5, abs=0.02)
    assert min(rows, key=lambda row: row[6])[0] == 2


def test_evidence_against_stands_beside_evidence_for(straggler: Callable[..., Diagnosis]) -> None:
    rows = table(document(straggler()), "reasons", "Evidence on thermal")

    assert [row[0] for row in rows] == ["for", "against"]


def test_throttled_time_is_a_total_over_the_trouble(straggler: Callable[..., Diagnosis]) -> None:
    diagnosis = straggler()
    rows = table(document(diagnosis), "health", "throttled")
    during = diagnosis.grid.end[-1] - diagnosis.grid.start[40]
    by_rank = {(row[0], row[3]): row for row in rows}

    assert by_rank[2, "during"][-1] == pytest.approx(during, rel=0.01)
    assert by_rank[2, "before"][-1] == 0.0
    assert by_rank[1, "during"][-1] == 0.0


def test_the_timeline_puts_the_onset_between_start_and_end(
    straggler: Callable[..., Diagnosis],
) -> None:
    rows = table(document(straggler()), "timeline", "Events")

    assert [row[2] for row in rows] == [0, 40, 120]
    assert rows[0][1] < rows[1][1] < rows[2][1]


def test_a_hang_names_the_missing_rank_and_the_collective(hang: Diagnosis) -> None:
    events = [row[3] for row in table(document(hang), "timeline", "Events")]

    assert any("dp-all-reduce 311" in event and "rank 1" in event for event in events)


def test_a_healthy_run_asks_for_nothing(healthy: Diagnosis) -> None:
    rows = table(document(healthy), "actions", "Actions")

    assert rows == [["–", "", "none", "Nothing to do."]]


def test_the_loss_is_shown_against_the_entropy_rate(straggler: Callable[..., Diagnosis]) -> None:
    chart = next(
        block for block in section(document(straggler()), "model")["blocks"]
        if block["block"] == "lines"
    )  # fmt: skip

    assert chart["lines"][1]["y"] == [1.2, 1.2]


def test_missing_data_is_named(straggler: Callable[..., Diagnosis]) -> None:
    rows = table(document(straggler()), "completeness", "missing")

    assert rows == [["no GPU memory series"]]


def test_a_paced_run_is_called_emulated_and_simulated() -> None:
    spec = {"launcher": "local", "pace": True, "device_seconds": 0.04, "device_noise": 0.02}
    labels = [block["label"] for block in reality({"spec": spec}, ())["blocks"]]

    assert labels == ["real", "emulated", "emulated", "simulated"]


def test_an_unpaced_run_has_no_simulated_gpu() -> None:
    blocks = reality({"spec": {"launcher": "local", "pace": False}}, ())["blocks"]

    assert [block["label"] for block in blocks] == ["real", "emulated"]


def test_every_cause_that_can_be_injected_has_its_own_advice() -> None:
    assert {FAULT_CAUSES[kind] for kind in BUILT} | {Cause.SOFTWARE} <= set(ADVICE)


def test_a_cause_without_a_row_still_gets_advice(straggler: Callable[..., Diagnosis]) -> None:
    verdict = straggler().verdict
    unknown = replace(verdict.culprits[0], cause=Cause.UNKNOWN)
    blocks = advice(replace(verdict, culprits=(unknown,)), emulated=False, owners="")["blocks"]

    assert blocks[0]["rows"]


def test_the_command_that_repeats_the_run_can_be_copied(
    straggler: Callable[..., Diagnosis],
) -> None:
    blocks = section(document(straggler()), "reproduce")["blocks"]

    assert "lockstep run gpt --nodes 4 --steps 120 --seed 7" == blocks[0]["text"]


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (None, "seconds", figures.UNKNOWN),
        (float("nan"), "ratio", figures.UNKNOWN),
        (0.0, "seconds", "0 s"),
        (0.0412, "seconds", "41.2 ms"),
        (3.44, "seconds", "3.44 s"),
        (750.0, "seconds", "12 min 30 s"),
        (1.314, "ratio", "1.31x"),
        (0, "share", "0 %"),
        (1.98e9, "hertz", "1980 MHz"),
        (True, "", "yes"),
        (0, "", "0"),
    ],
)
def test_figures_are_written_for_people(value: Any, unit: str, expected: str) -> None:
    assert expected == figures.cell(value, unit)


def test_a_run_that_stopped_at_the_onset_has_no_before_and_after(hang: Diagnosis) -> None:
    tree = document(hang)

    assert "own time" in [each["name"] for each in lateness_columns(tree)]
    assert "step time, median" in [row[0] for row in table(tree, "impact", "Impact")]


def lateness_columns(tree: dict[str, Any]) -> list[dict[str, Any]]:
    blocks = section(tree, "lateness")["blocks"]
    return next(each["columns"] for each in blocks if "Ranks" in each.get("title", ""))
