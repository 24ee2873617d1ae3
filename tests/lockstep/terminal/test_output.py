"""Data on stdout, progress on stderr."""

import io
import json
import sys

import pytest

from lockstep.collector.contract.visible import HIDDEN
from lockstep.terminal import output
from lockstep.terminal.output import Format


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_columns_are_aligned_under_their_header() -> None:
    table = output.grid(("a", "bb", "c"), [("1", "2", ""), ("333", "4", "5")])

    assert table.splitlines() == ["a    bb  c", "1    2", "333  4   5"]


def test_a_tree_is_printed_as_asked(capsys: pytest.CaptureFixture[str]) -> None:
    tree = {"b": 1, "a": [0, None]}
    for form in Format:
        output.document(tree, form, "a table")
    lines = capsys.readouterr().out.splitlines()

    assert lines[0] == "a table"
    assert json.loads("\n".join(lines[1:-1])) == tree
    assert lines[-1] == '{"b":1,"a":[0,null]}'


def test_json_refuses_what_json_cannot_say() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        output.document({"a": float("nan")}, Format.JSON, "")


def test_emphasis_stays_out_of_pipes_and_of_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.emphasis("x") == "x"

    monkeypatch.setattr(sys, "stdout", Terminal())
    assert output.emphasis("x") == "\x1b[1mx\x1b[0m"

    monkeypatch.setenv("NO_COLOR", "1")
    assert output.emphasis("x") == "x"


def test_progress_in_a_log_is_one_line_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    show = output.Progress()
    for step in range(100):
        show("training", f"step {step}")
    show("analyzing")
    show.close()

    assert log.getvalue() == "training: step 0\nanalyzing\n"


def test_progress_on_a_terminal_updates_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    show = output.Progress()
    show("training", "step 1")
    show("analyzing")
    show.close()

    assert terminal.getvalue() == "\r\x1b[2Ktraining: step 1\n\r\x1b[2Kanalyzing\n"


EVIL = "node\x1b[2J\x9b1A\x07\u202e-1\rhealthy"


@pytest.mark.parametrize("form", Format)
def test_nothing_that_is_printed_steers_a_terminal(
    form: Format, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output.document({"node": EVIL}, form, output.grid(("node",), [(f"{EVIL}\nrow",)]))
    output.note(EVIL)
    show = output.Progress()
    show("watching", f"{EVIL}\n")
    show.close()
    said = capsys.readouterr()

    assert not HIDDEN.search(said.out + said.err)
    if form is not Format.TABLE:
        assert {"node": EVIL} == json.loads(said.out)


def test_emphasis_lets_nothing_else_through(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", terminal)
    output.data(f"{output.emphasis(EVIL)}\nrow {output.BOLD}{EVIL}")

    told = terminal.getvalue()
    assert told.startswith("\x1b[1mnode\\u001b[2J")
    assert 2 == told.count("\x1b")


@pytest.mark.parametrize("evil", ["\x9b2J", "\x07", "\u202e", "\r", "\n"])
def test_a_name_that_looks_like_emphasis_is_spelled_out(
    monkeypatch: pytest.MonkeyPatch, evil: str
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", terminal)
    output.data(f"{output.BOLD}node{evil}-1{output.PLAIN}")

    told = terminal.getvalue().rstrip("\n")
    assert told.startswith(f"{output.BOLD}node\\")
    assert evil not in told
