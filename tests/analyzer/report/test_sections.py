"""What the sections of a report say, each as a user reads it in the tree."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.causes.registry import CAUSES
from lockstep.analyzer.report import figures
from lockstep.analyzer.report.document import document, title
from lockstep.analyzer.report.inputs import ReportInputs
from lockstep.analyzer.report.render import render
from lockstep.analyzer.report.sections.advice import ADVICE, advice
from lockstep.analyzer.report.sections.checks import FAILED, PASSED, SILENT, checks
from lockstep.analyzer.report.sections.summary import summary
from lockstep.analyzer.report.sections.supporting import reality
from lockstep.analyzer.report.sections.timing import heat
from lockstep.analyzer.report.series import MAX_BUCKETS, MOST_ROWS, Spans, shown, spans, thinned
from lockstep.analyzer.rules.alert_rules.groups import ALERTS
from lockstep.analyzer.shapes.run import Grid, RankInfo
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.collector.contract.words import FAULT_CAUSES, Cause
from lockstep.workloads.faults.plan import BUILT
from tests.analyzer.report.trees import rows, section, table


def test_the_title_names_who_and_why(
    straggler: Callable[..., Diagnosis], healthy: Diagnosis, hang: Diagnosis, empty: Diagnosis
) -> None:
    titles = [title(each.verdict) for each in (straggler(), healthy, hang, empty)]

    assert titles == [
        "Rank 2 on node-2 is 1.50x slower: thermal",
        "No rank holds this run back",
        "Rank 1 on node-1 stopped: crash",
        "No place can be named",
    ]


def test_the_culprit_stands_out_of_its_peers(straggler: Callable[..., Diagnosis]) -> None:
    shown_rows = rows(document(straggler()), "lateness", "Ranks")

    assert [row[0] for row in shown_rows if row[-1] == "culprit"] == [2]
    assert shown_rows[2][5] == pytest.approx(1.5, abs=0.02)
    assert min(shown_rows, key=lambda row: row[6])[0] == 2


def test_evidence_against_stands_beside_evidence_for(straggler: Callable[..., Diagnosis]) -> None:
    shown_rows = rows(document(straggler()), "reasons", "Evidence on thermal")

    assert [row[0] for row in shown_rows] == ["for", "against"]


def test_throttled_time_is_a_total_over_the_trouble(straggler: Callable[..., Diagnosis]) -> None:
    diagnosis = straggler()
    shown_rows = rows(document(diagnosis), "health", "throttled")
    during = diagnosis.grid.end[-1] - diagnosis.grid.start[40]
    by_rank = {(row[0], row[3]): row for row in shown_rows}

    assert by_rank[2, "during"][-1] == pytest.approx(during, rel=0.01)
    assert by_rank[2, "before"][-1] == 0.0
    assert by_rank[1, "during"][-1] == 0.0


def test_the_timeline_puts_the_onset_between_start_and_end(
    straggler: Callable[..., Diagnosis],
) -> None:
    shown_rows = rows(document(straggler()), "timeline", "Events")

    assert [row[2] for row in shown_rows] == [0, 40, 120]
    assert shown_rows[0][1] < shown_rows[1][1] < shown_rows[2][1]


def test_a_hang_names_the_missing_rank_and_the_collective(hang: Diagnosis) -> None:
    events = [row[3] for row in rows(document(hang), "timeline", "Events")]

    assert any("dp-all-reduce 311" in event and "rank 1" in event for event in events)


def test_a_healthy_run_asks_for_nothing(healthy: Diagnosis) -> None:
    shown_rows = rows(document(healthy), "actions", "Actions")

    assert shown_rows == [["–", "", "none", "Nothing to do."]]


def test_the_loss_is_shown_against_the_entropy_rate(straggler: Callable[..., Diagnosis]) -> None:
    chart = next(
        block for block in section(document(straggler()), "model")["blocks"]
        if block["block"] == "lines"
    )  # fmt: skip

    assert chart["lines"][1]["y"] == [1.2, 1.2]


def test_missing_data_is_named(straggler: Callable[..., Diagnosis]) -> None:
    shown_rows = rows(document(straggler()), "completeness", "missing")

    assert shown_rows == [["no GPU memory series"]]


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

    assert "own time" in [each["name"] for each in table(tree, "lateness", "Ranks")["columns"]]
    assert "step time, median" in [row[0] for row in rows(tree, "impact", "Impact")]


def test_the_first_screen_has_chart_cost_and_action(straggler: Callable[..., Diagnosis]) -> None:
    tree = document(straggler())
    first = tree["sections"][0]

    assert [(each["block"], each["title"]) for each in first["blocks"]] == [
        ("lines", "Own time per step"),
        ("table", "What it cost"),
        ("table", "What to do first"),
        ("table", "Own time per step: values"),
    ]
    assert [{"step": 40, "label": "onset"}] == first["blocks"][0]["marks"]
    assert ["node-2", "Read temperatures and throttle reasons on the node."] in rows(
        tree, "glance", "What to do first"
    )


def test_a_run_that_stopped_is_marked_where_it_did(hang: Diagnosis) -> None:
    chart = document(hang)["sections"][0]["blocks"][0]

    assert [{"step": 120, "label": "stopped"}] == chart["marks"]


def test_without_a_step_the_first_screen_says_so(empty: Diagnosis) -> None:
    tree = document(empty)
    told = [each.get("text") for each in section(tree, "glance")["blocks"]]

    assert "No chart: no own time of a rank answered." in told
    assert [["slowdown of the run", "unknown"], ["lost", "unknown"]] == rows(
        tree, "glance", "What it cost"
    )


def test_a_slowdown_is_one_number_wherever_it_is_told(straggler: Callable[..., Diagnosis]) -> None:
    found = straggler()
    slow = tuple(replace(one, slowdown=1.4849) for one in found.verdict.culprits)
    tree = document(replace(found, verdict=replace(found.verdict, culprits=slow)))
    by_rank = rows(tree, "lateness", "Ranks, medians per step")

    assert [None, None, 1.4849, None] == [row[5] for row in by_rank]
    assert ["slowdown of rank 2 itself", "1.48x"] == next(
        row[:2] for row in rows(tree, "impact", "Impact") if "itself" in row[0]
    )
    assert "1.48x" in tree["title"]
    assert "1.48x" in tree["summary"][0]


def test_the_figures_of_the_literature_stand_in_the_appendix(
    straggler: Callable[..., Diagnosis],
) -> None:
    found = straggler()
    told = {"method": "simulation", "S": 1.27, "S_strata": 1.48, "fixes": []}
    tree = document(replace(found, verdict=replace(found.verdict, what_if=told)))
    appendix = section(tree, "simulated")

    assert ["S", "S_strata"] == [row[0] for row in appendix["blocks"][1]["rows"]]
    assert "S_strata" not in str([one for one in tree["sections"] if one is not appendix])
    assert "simulated" not in [one["name"] for one in document(found)["sections"]]


def test_the_run_is_made_again_with_its_fault(straggler: Callable[..., Diagnosis]) -> None:
    line = "lockstep run gpt --seed 7 --fault thermal:rank=2,factor=1.5"
    blocks = section(document(straggler(), ReportInputs(command=line)), "reproduce")["blocks"]

    assert {"block": "code", "text": line} == blocks[0]


def test_queries_are_folded_away(straggler: Callable[..., Diagnosis]) -> None:
    page = render(document(straggler()), "html")
    open_text = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)

    assert "rate(lockstep_train_own_seconds_total" in page
    assert "rate(" not in open_text


RUNBOOKS = Path(__file__).parents[3] / "deploy" / "runbooks"


def larger(grid: Grid, stages: int, replicas: int) -> Grid:
    """The grid with more ranks, all like those that it has."""
    count = stages * replicas
    ranks = tuple(
        RankInfo(rank, f"node-{rank // 8}", rank % 8, None, rank % 8, rank % replicas,
                 rank // replicas, 0)
        for rank in range(count)
    )  # fmt: skip
    columns = np.arange(count) % len(grid.ranks)
    wide = {name: values[:, columns] for name, values in grid.time.items()}
    return replace(grid, ranks=ranks, time=wide, signals={})


def test_every_runbook_is_an_alert_and_a_file() -> None:
    named = {spec.runbook for spec in CAUSES}
    named |= {spec.runbook_without_gpu for spec in CAUSES if spec.runbook_without_gpu}

    assert set() == named - {alert.full_name for alert in ALERTS}
    assert set() == {name for name in named if not (RUNBOOKS / f"{name}.md").is_file()}


def test_an_option_for_a_name_gets_no_command(straggler: Callable[..., Diagnosis]) -> None:
    verdict = straggler(node="-oProxyCommand=reboot").verdict
    code = next(each["text"] for each in advice(verdict, emulated=False, owners="")["blocks"]
                if each["block"] == "code")  # fmt: skip

    assert not [line for line in code.splitlines() if "ssh -o" in line or "cordon -o" in line]
    assert "ssh NODE nvidia-smi" in code


def test_a_check_names_who_failed_it(straggler: Callable[..., Diagnosis]) -> None:
    told = {row[0]: row for row in rows(document(straggler()), "health", "Checks")}

    assert [FAILED, "node-2 GPU 0"] == [told["throttled by heat"][1], told["throttled by heat"][3]]
    assert SILENT == told["XID errors"][1]


def test_a_gauge_passes_where_it_never_rose(healthy: Diagnosis) -> None:
    pending = {"lockstep_gpu_row_remap_pending": np.zeros((120, 4))}
    table = checks(replace(healthy.grid, signals=pending))[0]
    assert table is not None

    assert [PASSED] == [row[1] for row in table["rows"] if row[0] == "row remap pending"]


def test_the_map_has_stages_and_replicas_and_outlines_the_culprit(
    straggler: Callable[..., Diagnosis],
) -> None:
    diagnosis = straggler()
    wide = larger(diagnosis.grid, stages=2, replicas=16)
    chart, twin = heat(wide, replace(spans(wide, diagnosis.verdict), culprits=(2,)), "")
    assert chart is not None
    assert twin is not None

    assert ["stage 0", "stage 1"] == [row["label"] for row in chart["rows"]]
    assert [[0, 2]] == chart["marked"]
    assert chart["rows"][0]["values"][2] == pytest.approx(1.5, abs=0.03)
    assert MOST_ROWS == len(twin["rows"])


def test_few_ranks_have_no_map(straggler: Callable[..., Diagnosis]) -> None:
    diagnosis = straggler()

    assert (None, None) == heat(diagnosis.grid, spans(diagnosis.grid, diagnosis.verdict), "")


def test_step_times_and_phases_stand_before_and_during(
    straggler: Callable[..., Diagnosis],
) -> None:
    tree = document(straggler())
    before, during = rows(tree, "model", "Step time")
    backward = next(row for row in rows(tree, "model", "Where a step goes") if row[0] == "backward")

    assert before[1] <= before[2] <= before[3] < during[1] <= during[2] <= during[3]
    assert backward[1] > backward[2]  # waiting takes a larger part of the step


@pytest.mark.parametrize("name", ["straggler", "healthy", "hang", "empty"])
def test_the_verdict_takes_three_sentences_at_most(
    name: str, request: pytest.FixtureRequest
) -> None:
    made = request.getfixturevalue(name)
    told = summary((made() if name == "straggler" else made).verdict)

    assert 1 <= len(told) <= 3
    assert all(each.endswith(".") for each in told)


def test_many_culprits_are_counted(straggler: Callable[..., Diagnosis]) -> None:
    verdict = straggler().verdict
    told = summary(replace(verdict, culprits=verdict.culprits * 5))

    assert 3 == len(told)
    assert told[0].endswith("; and 2 more.")


@given(
    st.lists(st.floats(allow_nan=True), min_size=1, max_size=80),
    st.sets(st.integers(0, 79), max_size=20),
)
def test_rows_shown_are_few_ordered_and_have_the_first_culprits(
    values: list[float], guilty: set[int]
) -> None:
    culprits = tuple(sorted(each for each in guilty if each < len(values)))
    none = np.zeros(0, dtype=bool)
    picked = shown(Spans(none, none, culprits, (), None), values)

    assert picked == sorted(set(picked))
    assert len(picked) == min(len(values), MOST_ROWS)
    assert set(culprits[:8]) <= set(picked)


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=False, width=32), min_size=1, max_size=900)
)
def test_thinning_keeps_the_extremes_and_the_order(values: list[float]) -> None:
    array = np.array(values)
    picked = thinned(array)

    assert picked == sorted(set(picked))
    assert len(picked) <= 2 * MAX_BUCKETS
    if np.isfinite(array).any():
        assert np.nanmax(array) == np.nanmax(array[picked])
        assert np.nanmin(array) == np.nanmin(array[picked])
