"""The README is one page, and has every command and exit code; other texts stay short, too."""

import re

import pytest

from lockstep.app import COMMANDS, GROUPS
from lockstep.collector.contract.words import ExitCode
from tests.docs.reference import ROOT

README = (ROOT / "README.md").read_text("utf-8")
LINES_AT_MOST = 100
BYTES_AT_MOST = {"CONTRIBUTING.md": 8_000, "CHANGELOG.md": 12_000}


def test_the_readme_is_one_page() -> None:
    assert len(README.splitlines()) <= LINES_AT_MOST


@pytest.mark.parametrize("name", BYTES_AT_MOST)
def test_what_everybody_reads_stays_short(name: str) -> None:
    assert len((ROOT / name).read_bytes()) <= BYTES_AT_MOST[name]


def test_the_readme_has_every_command_and_exit_code() -> None:
    assert {command.__name__ for command in COMMANDS} | set(GROUPS) == set(
        re.findall(r"^\| `lockstep (\w+)", README, re.MULTILINE)
    )
    for name, code in vars(ExitCode).items():
        if name.isupper():
            assert re.search(rf"\b{code}\b", README)
