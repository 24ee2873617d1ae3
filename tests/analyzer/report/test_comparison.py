"""Only what differs from the baseline is told, with an interval."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lockstep.analyzer.report.document import document
from lockstep.analyzer.report.inputs import ReportInputs
from lockstep.analyzer.report.sections.comparison import comparison
from lockstep.analyzer.verdict.pipeline import Diagnosis


def tables(block: dict[str, Any]) -> dict[str, list[list[Any]]]:
    return {each["title"]: each["rows"] for each in block["blocks"] if each["block"] == "table"}


def words(block: dict[str, Any]) -> str:
    return " ".join(each["text"] for each in block["blocks"] if each["block"] == "text")


def test_a_slow_run_differs_from_a_healthy_one(
    straggler: Callable[..., Diagnosis], healthy: Diagnosis
) -> None:
    told = {row[0]: row[3:] for row in tables(comparison(straggler(), healthy))["What differs"]}
    difference, low, high = told["own time, slowest rank"]

    assert difference == pytest.approx(0.45, abs=0.05)
    assert low < difference < high
    assert "step time" in told
    assert "temperature" not in told  # the median GPU is as cool as before


def test_a_run_does_not_differ_from_itself(healthy: Diagnosis) -> None:
    block = comparison(healthy, healthy)

    assert {} == tables(block)
    assert "Nothing that was measured differs." in words(block)
    assert "the baseline's" in words(block)


def test_settings_and_nodes_that_differ_are_told(healthy: Diagnosis) -> None:
    meta = {**healthy.run.meta, "spec": {**healthy.run.meta["spec"], "seed": 8}}
    ranks = tuple(replace(info, node=f"other-{info.rank}") for info in healthy.grid.ranks)
    other = replace(
        healthy,
        run=replace(healthy.run, meta=meta, name="other"),
        grid=replace(healthy.grid, ranks=ranks),
    )
    told = tables(comparison(healthy, other))

    assert [["spec.seed", "8", "7"]] == told["Configuration that differs"]
    assert [4, 4] == [row[1] for row in told["Nodes that differ"]]


def test_an_empty_baseline_is_too_little(healthy: Diagnosis, empty: Diagnosis) -> None:
    tree = document(healthy, ReportInputs(baseline=empty))

    assert "comparison" in [section["name"] for section in tree["sections"]]
