"""The help as text: whole words at every width, groups, colour for terminals alone."""

import io
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lockstep.app import COMMANDS
from lockstep.cli import command_line
from lockstep.terminal import output

NAMES = [command.__name__ for command in COMMANDS]
WIDTHS = (60, 80, 120)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.sweep
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", ["", *NAMES])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_cut(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, command: str, width: int
) -> None:
    words = [command] if command else []
    monkeypatch.setenv("COLUMNS", "200")
    whole = lockstep(*words, "--help").out
    monkeypatch.setenv("COLUMNS", str(width))
    narrow = lockstep(*words, "--help").out

    assert max(map(len, narrow.splitlines())) <= width
    assert not re.search(r"[a-z]\.\.\.", narrow)
    assert _words(narrow) == _words(whole)


def _words(text: str) -> list[str]:
    """Sorted; a word may go on after its hyphen in the next line."""
    return sorted(re.sub(r"(?<=\w)-\s+", "-", text).split())


def test_every_command_shows_its_whole_first_sentence(lockstep: Callable[..., Any]) -> None:
    shown = " ".join(lockstep("--help").out.split())

    for command in COMMANDS:
        assert " ".join((command.__doc__ or "").partition("\n\n")[0].split()) in shown


def test_types_and_bounds_are_words(lockstep: Callable[..., Any]) -> None:
    helps = "".join(lockstep(name, "--help").out for name in NAMES)

    assert not re.search(r"<(int|float|str|path|list)|x>=|<=x|\[\[|\{[A-Z]", helps)
    assert "0 to 0.5" in helps
    assert "at least 40" in " ".join(helps.split())


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstep.app import main

    def told(**environment: str) -> str:
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        for name in ("NO_COLOR", "TERM"):
            monkeypatch.setenv(name, environment.get(name, ""))
        main(["demo", "--help"])
        return terminal.getvalue()

    coloured = told(TERM="xterm")
    assert f"{output.BOLD}Usage:{output.PLAIN} lockstep demo" in coloured
    assert f"{command_line.CYAN}--seed{output.PLAIN} N" in coloured
    plain = told(TERM="xterm", NO_COLOR="1")
    assert "\x1b" not in plain
    assert plain == re.sub(r"\x1b\[\d+m", "", coloured)
    assert plain == told(TERM="dumb")
