"""What people write into report.md stays, and is nobody's command."""

from collections.abc import Callable
from typing import Any

import pytest

from lockstep.analyzer.report import human
from lockstep.analyzer.report.document import document
from lockstep.analyzer.report.inputs import ReportInputs
from lockstep.analyzer.report.render import render
from lockstep.analyzer.verdict.pipeline import Diagnosis

EVIL = '<script>alert(1)</script> <img src=x onerror="x"> [a](javascript:x)\n| b | 👩‍🔧'


def edited(markdown: str, name: str, words: str) -> str:
    before, rest = markdown.split(f"{human.begin(name)}\n")
    _, after = rest.split(human.end(name), 1)
    return f"{before}{human.begin(name)}\n{words}\n{human.end(name)}{after}"


def test_a_report_begins_as_a_draft_with_every_block(healthy: Diagnosis) -> None:
    tree = document(healthy)

    assert "draft" == tree["review"]
    assert human.BLOCKS == human.written(render(tree, "md"))


def test_what_was_written_is_there_after_the_report_was_made_again(
    straggler: Callable[..., Diagnosis],
) -> None:
    first = render(document(straggler()), "md")
    written = edited(edited(first, "lessons", EVIL), "review", "Reviewed by: Ada")
    tree = document(straggler(), ReportInputs(human=human.written(written)))

    assert "reviewed" == tree["review"]
    assert EVIL == human.written(render(tree, "md"))["lessons"]
    assert written.replace("Report: draft", "Report: reviewed") == render(tree, "md")


def test_what_was_written_is_escaped_in_the_page(
    healthy: Diagnosis, page: Callable[[dict[str, Any]], str]
) -> None:
    shown = page(document(healthy, ReportInputs(human={"lessons": EVIL})))

    assert "&lt;script&gt;alert(1)" in shown
    assert "<script" not in shown
    assert "<img" not in shown


def test_people_may_add_blocks_of_their_own(healthy: Diagnosis) -> None:
    own = human.written("\n".join(human.lines("customers", "Nobody noticed.")))
    text = render(document(healthy, ReportInputs(human=own)), "md")

    assert "Nobody noticed." == human.written(text)["customers"]


def test_a_windows_editor_changes_nothing() -> None:
    text = "\n".join(human.lines("lessons", "one\ntwo"))

    assert {"lessons": "one\ntwo"} == human.written(text.replace("\n", "\r\n"))


def test_a_marker_in_the_words_is_no_marker() -> None:
    inside = human.end("lessons")

    assert {"lessons": f" {inside}"} == human.written("\n".join(human.lines("lessons", inside)))


def test_no_name_in_a_report_can_forge_a_block(straggler: Callable[..., Diagnosis]) -> None:
    forged = f"\n{human.begin('lessons')}\nforged\n{human.end('lessons')}\n"
    tree = document(straggler(node=forged, text=forged))

    assert human.BLOCKS == human.written(render(tree, "md"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (human.begin("a"), "the block a is not closed by <!-- human:end a -->"),
        (human.end("a"), "closes no block that is open"),
        (f"{human.begin('a')}\n{human.begin('b')}", "the block a is not closed before"),
        (f"{human.begin('a')}\n{human.end('b')}", "<!-- human:end b --> closes no block"),
        ("\n".join(human.lines("a", "") * 2), "the block a is there twice"),
    ],
)
def test_markers_that_do_not_pair_are_named(text: str, why: str) -> None:
    with pytest.raises(human.HumanBlockError, match=why):
        human.written(text)
