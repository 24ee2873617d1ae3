"""An archive whose names would steer a terminal: what is printed and reported shows them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstep.collector.contract.visible import HIDDEN
from tests.attack.archives import named

EVIL = "n\x1b[2J\x1b]52;c;b3duZWQ=\x07\x9b1A\r\u202e\u2066-"


@pytest.mark.parametrize("form", ["table", "json", "jsonl"])
def test_no_command_that_reads_an_archive_steers_the_terminal(
    tmp_path: Path, lockstep: Callable[..., Any], form: str
) -> None:
    folder = named(tmp_path / "archive", f"run{EVIL}", EVIL)
    answer = lockstep("analyze", folder, "-o", form)

    assert 2 == answer.code, answer
    assert not HIDDEN.search(answer.out + answer.err)
    if form == "table":
        assert "n\\u001b[2J" in answer.out
    else:
        told = json.loads(answer.out)
        assert f"run{EVIL}" == told["run"]
        assert f"{EVIL}2" == told["culprits"][0]["node"]


def test_a_report_holds_none_either(tmp_path: Path, lockstep: Callable[..., Any]) -> None:
    folder = named(tmp_path / "archive", f"run{EVIL}", EVIL)
    answer = lockstep("report", folder)

    assert 0 == answer.code, answer
    assert not HIDDEN.search(answer.out + answer.err)
    for form in ("md", "html"):
        assert not HIDDEN.search((folder / f"report.{form}").read_text())


def test_what_is_wrong_with_a_file_of_such_a_name_is_one_harmless_line(
    tmp_path: Path, lockstep: Callable[..., Any]
) -> None:
    answer = lockstep("analyze", tmp_path / f"{EVIL}\nlockstep: healthy")

    assert 65 == answer.code
    assert not HIDDEN.search(answer.err)
    assert 1 == len(answer.err.splitlines())
