"""The first screen of a report: one chart, the cost, what to do; one number for one thing."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lockstep.analyzer.report.document import document
from lockstep.analyzer.report.inputs import ReportInputs
from lockstep.analyzer.report.render import render
from lockstep.analyzer.verdict.pipeline import Diagnosis


def section(tree: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in tree["sections"] if each["name"] == name)


def rows(tree: dict[str, Any], name: str, title: str) -> list[list[Any]]:
    found = (each for each in section(tree, name)["blocks"] if each.get("title") == title)
    return next(found)["rows"]


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
    assert [["slowdown of the run", "not known"], ["lost", "not known"]] == rows(
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
