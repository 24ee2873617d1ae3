"""What `lockstep run` says last: the verdict and the next command, whatever the verdict is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstep.commands import run
from lockstep.commands.run import conclude
from lockstep.diagnose import diagnosis
from lockstep.runs import results as afterwards
from lockstep.terminal.output import CommandError, Format


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "run.json").write_text(json.dumps({"schema_version": 1, "run": "r"}))
    return tmp_path


def test_people_read_it_on_stdout_and_programs_find_data_there(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conclude(archive, Format.TABLE, ended_early=False)
    for_people = capsys.readouterr()
    conclude(archive, Format.JSON, ended_early=False)
    for_programs = capsys.readouterr()

    verdict, following = for_people.out.splitlines()
    assert verdict.startswith("verdict Unknown")
    assert following == f"next    lockstep analyze {archive}"
    assert for_people.err == f"analyzing: {archive}\n"
    assert for_programs.out == ""
    assert [verdict, following] == for_programs.err.splitlines()[1:]


def test_whoever_interrupted_the_run_does_not_wait_for_a_verdict(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conclude(archive, Format.TABLE, ended_early=True)

    assert capsys.readouterr().out == f"next    lockstep analyze {archive}\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (CommandError(65, "it is torn"), "none: it is torn"),
        (ValueError("the moon\nis full"), "none: ValueError: the moon"),
        (ModuleNotFoundError("No module named 'pandas'"), ""),
    ],
)
def test_a_run_is_not_spoilt_by_its_verdict(
    archive: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def broken(folder: Path) -> None:
        raise error

    monkeypatch.setattr(diagnosis, "diagnose_archive", broken)

    assert said == afterwards.verdict_sentence(archive)


def test_the_archive_keeps_the_verdict_and_nothing_else_is_written(archive: Path) -> None:
    sentence = afterwards.verdict_sentence(archive)

    assert sorted(each.name for each in archive.iterdir()) == ["run.json", "verdict.json"]
    assert sentence == json.loads((archive / "verdict.json").read_text())["sentence"]


def test_a_verdict_that_cannot_be_kept_is_said(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(diagnosis, "write_verdict", full)

    assert afterwards.verdict_sentence(archive).startswith("Unknown")


def test_where_the_analyzer_is_not_installed_only_the_command_is_said(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(folder: Path) -> None:
        raise ModuleNotFoundError("No module named 'pandas'")

    monkeypatch.setattr(diagnosis, "diagnose_archive", missing)
    conclude(archive, Format.TABLE, ended_early=False)

    assert capsys.readouterr().out == f"next    lockstep analyze {archive}\n"


@pytest.mark.parametrize(
    ("words", "judged"), [([], True), (["--no-verdict"], False), (["--run-id", "r-1"], False)]
)
def test_a_verdict_is_said_unless_nobody_wants_one(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    words: list[str], judged: bool,
) -> None:  # fmt: skip
    said: list[bool] = []
    monkeypatch.setattr(run, "observed", lambda *given, judged: said.append(judged) or 0)
    lockstep("run", "gpt", "--out", tmp_path / "archive", *words)

    assert said == [judged]
