"""The README is one page, and has every command and exit code."""

import re

from lockstep.app import COMMANDS, GROUPS
from lockstep.collector.contract.words import ExitCode
from tests.docs.reference import ROOT

README = (ROOT / "README.md").read_text("utf-8")
LINES_AT_MOST = 150


def test_the_readme_is_one_page() -> None:
    assert len(README.splitlines()) <= LINES_AT_MOST


def test_the_readme_has_every_command_and_exit_code() -> None:
    assert {command.__name__ for command in COMMANDS} | set(GROUPS) == set(
        re.findall(r"^\| `lockstep (\w+)", README, re.MULTILINE)
    )
    for name, code in vars(ExitCode).items():
        if name.isupper():
            assert re.search(rf"\b{code}\b", README)
