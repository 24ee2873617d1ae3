"""The report as a whole: the same in all formats, the same every time, and safe."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from lockstep.analyzer.report.document import document
from lockstep.analyzer.report.render import FORMATS, render
from lockstep.analyzer.report.sections import detection
from lockstep.analyzer.rules.alert_rules.shape import PLACEHOLDERS
from lockstep.analyzer.stragglers.registry import DETECTORS
from lockstep.analyzer.verdict.pipeline import Diagnosis

Page = Callable[[dict[str, Any]], str]
HOSTILE = '<script>alert("1")</script> | a`b` *c* [d](e) \n\r\N{GRINNING FACE} \'"&<img src=x>'


class Tags(HTMLParser):
    """Every element and attribute of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(params=["straggler", "healthy", "hang", "empty"])
def diagnosis(request: pytest.FixtureRequest) -> Diagnosis:
    made = request.getfixturevalue(request.param)
    return made() if request.param == "straggler" else made


def test_page_and_markdown_are_made_of_report_json_alone(
    straggler: Callable[..., Diagnosis], page: Page
) -> None:
    tree = document(straggler())
    stored = json.loads(render(tree, "json"))

    assert page(tree) == render(stored, "html")
    assert render(tree, "md") == render(stored, "md")


@pytest.mark.parametrize("form", FORMATS)
def test_a_report_never_says_nan(diagnosis: Diagnosis, form: str, page: Page) -> None:
    tree = document(diagnosis)
    text = page(tree) if form == "html" else render(tree, form)

    assert re.search(r"\b(nan|None|inf)\b", text) is None


def test_a_page_loads_nothing_and_runs_nothing(
    straggler: Callable[..., Diagnosis], page: Page
) -> None:
    text = page(document(straggler()))
    tags = Tags(text)

    assert len(text.encode()) <= 1_000_000
    assert "default-src 'none'" in text
    assert not {"script", "link", "img", "image", "iframe", "object", "base"} & set(tags.names)
    for name, value in tags.attributes:
        assert not name.startswith("on")
        if name in ("src", "xlink:href"):
            assert (value or "").startswith("#")
    assert not re.search(r"url\((?!#)|@import", text)


def test_links_lead_into_the_page_and_to_runbooks_only(
    straggler: Callable[..., Diagnosis], page: Page
) -> None:
    tags = Tags(page(document(straggler(node=HOSTILE, text=HOSTILE))))
    told = [value or "" for name, value in tags.attributes if name == "href"]

    assert [PLACEHOLDERS.runbook("LockstepGpuThermalViolation")] == [
        each for each in told if not each.startswith("#")
    ]


def test_hostile_names_are_shown_and_not_obeyed(
    straggler: Callable[..., Diagnosis], page: Page
) -> None:
    tags = Tags(page(document(straggler(node=HOSTILE, text=HOSTILE))))

    assert not {"script", "img"} & set(tags.names)
    assert '<script>alert("1")</script>' in tags.text


def test_hostile_names_cannot_break_a_markdown_table(
    straggler: Callable[..., Diagnosis],
) -> None:
    plain = render(document(straggler()), "md").splitlines()
    hostile = render(document(straggler(node=HOSTILE, text=HOSTILE)), "md")

    def cells(lines: list[str]) -> list[int]:
        return [len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("|")]

    assert cells(plain) == cells(hostile.splitlines())
    prose = "\n".join(line for line in hostile.splitlines() if not line.startswith("    "))
    assert "<script>" not in prose
    assert "[d](e)" not in prose.replace("\\[d\\](e)", "")


def test_hostile_names_cannot_add_a_command(straggler: Callable[..., Diagnosis]) -> None:
    tree = document(straggler(node="a; reboot\nreboot"))
    commands = next(
        block["text"]
        for section in tree["sections"]
        if section["name"] == "actions"
        for block in section["blocks"]
        if block["block"] == "code"
    )

    assert not [line for line in commands.splitlines() if line.startswith("reboot")]
    assert "'a; reboot reboot'" in commands


def test_the_page_and_the_markdown_say_what_the_tree_says(
    straggler: Callable[..., Diagnosis], page: Page
) -> None:
    tree = document(straggler())
    shown = Tags(page(tree)).text
    text = render(tree, "md")

    assert tree["sentence"] in shown
    for section in tree["sections"]:
        assert section["title"] in shown
        assert section["title"] in text


def test_every_chart_has_words_and_a_table(diagnosis: Diagnosis, page: Page) -> None:
    tree = document(diagnosis)
    shown = page(tree)
    charts = 0
    for section in tree["sections"]:
        names = [block["block"] for block in section["blocks"]]
        drawn = [
            block for block in section["blocks"] if block["block"] in ("lines", "bars", "cells")
        ]
        charts += len(drawn)

        assert all(len(block["alt"]) > 20 for block in drawn)
        assert names.count("table") >= len(drawn)

    # One for wide pages and one for telephones.
    assert shown.count('<svg role="img" aria-label="') == 2 * charts


def test_ids_on_a_page_are_unique(straggler: Callable[..., Diagnosis], page: Page) -> None:
    ids = re.findall(r'\bid="([^"]+)"', page(document(straggler())))

    assert sorted(set(ids)) == sorted(ids)


def test_the_report_is_its_golden(
    straggler: Callable[..., Diagnosis],
    golden: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = tuple(spec for spec in DETECTORS if spec.name == "links")
    monkeypatch.setattr(detection, "DETECTORS", old)  # a new one changes no golden
    tree = document(straggler())
    tree["version"] = "0.0.0"

    golden("report-thermal.md", render(tree, "md"))


def test_the_keys_of_the_tree_stand_in_their_order(healthy: Diagnosis) -> None:
    tree = document(healthy)

    expected = (
        "schema_version run generated_at version status review title summary sentence facts"
        " sections verdict"
    )
    assert expected.split() == list(tree)
    assert [
        "glance", "actions", "impact", "timeline", "detection", "reasons", "lateness", "health",
        "model",
        "people", "reality", "completeness", "reproduce", "glossary",
    ] == [section["name"] for section in tree["sections"]]  # fmt: skip


def test_another_format_is_refused_by_name(healthy: Diagnosis) -> None:
    with pytest.raises(ValueError, match="'pdf' is not one of html, md, json"):
        render(document(healthy), "pdf")
