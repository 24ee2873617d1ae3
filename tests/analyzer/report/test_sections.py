"""Parts of the report that one section makes: runbooks, checks, the map, speed, rows shown."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.causes.registry import CAUSES
from lockstep.analyzer.report.document import document
from lockstep.analyzer.report.sections.advice import advice
from lockstep.analyzer.report.sections.checks import FAILED, PASSED, SILENT, checks
from lockstep.analyzer.report.sections.summary import summary
from lockstep.analyzer.report.sections.timing import heat
from lockstep.analyzer.report.series import MOST_ROWS, Spans, shown, spans
from lockstep.analyzer.rules.alert_rules.groups import ALERTS
from lockstep.analyzer.shapes.run import Grid, RankInfo
from lockstep.analyzer.verdict.pipeline import Diagnosis

RUNBOOKS = Path(__file__).parents[3] / "deploy" / "runbooks"


def rows(tree: dict[str, Any], section: str, title: str) -> list[list[Any]]:
    blocks = next(each for each in tree["sections"] if each["name"] == section)["blocks"]
    return next(each["rows"] for each in blocks if title in each.get("title", ""))


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
