"""A folder of archives: which one is taken, and that this is said."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstep.cli.dashboard import _tell_newest
from lockstep.collector.contract.words import ExitCode
from lockstep.diagnose import newest

COMMANDS = ("analyze", "report")


def archive(folder: Path, ended: object = None) -> Path:
    folder.mkdir(parents=True)
    tree = {"schema_version": 1, "run": folder.name, "ended": ended}
    (folder / "run.json").write_text(json.dumps(tree))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs that ended, the second last; one that goes on; and what is no archive."""
    folder = tmp_path / "runs"
    archive(folder / "first", "2026-11-20T10:00:00+00:00")
    archive(folder / "second", "2026-11-20T14:00:00+01:00")
    archive(folder / "third", "2026-11-20T12:30:00+00:00")
    archive(folder / "going-on")
    archive(folder / ".under-way", "2026-11-21T00:00:00+00:00")
    (folder / "notes").mkdir()
    (folder / "linked").symlink_to(folder / "first")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_the_run_that_ended_last_is_taken_and_said(
    lockstep: Callable[..., Any], runs: Path, command: str
) -> None:
    answer = lockstep(command, runs)

    assert answer.err.startswith(
        f"lockstep: {runs} holds 4 archives; the last that ended is second (2026-11-20 13:00:00"
        f" UTC); another: lockstep {command} {runs}/"
    )
    assert "second" in answer.out or "unknown" in answer.out.lower()
    assert (runs / "second" / "verdict.json").exists() is (command == "analyze")
    assert not (runs / "verdict.json").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_an_archive_is_itself_and_nothing_is_said(
    lockstep: Callable[..., Any], runs: Path, command: str
) -> None:
    assert "" == lockstep(command, runs / "going-on").err


def test_data_stay_data(lockstep: Callable[..., Any], runs: Path) -> None:
    answer = lockstep("analyze", runs, "-o", "json")

    assert json.loads(answer.out)["run"] == "second"


@pytest.mark.parametrize("ended", [None, "soon", 3, [], "2026-11-20"])
def test_runs_that_have_not_ended_must_be_named(
    lockstep: Callable[..., Any], tmp_path: Path, ended: object
) -> None:
    only = archive(tmp_path / "runs" / "only", ended)
    answer = lockstep("analyze", only.parent)

    if ended == "2026-11-20":  # a date is a moment
        assert "the last that ended is only" in answer.err
        return
    assert answer.code == ExitCode.BAD_INPUT
    assert "holds one archive, and no run in it has ended" in answer.err
    assert f"name one: lockstep analyze {only}" in answer.err


def test_a_name_with_spaces_can_be_copied(lockstep: Callable[..., Any], tmp_path: Path) -> None:
    archive(tmp_path / "a run", "2026-11-20T10:00:00+00:00")
    archive(tmp_path / "b", "2026-11-20T11:00:00+00:00")

    assert f"another: lockstep analyze '{tmp_path}/a run'" in lockstep("analyze", tmp_path).err


def test_of_very_many_the_last_changed_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest, "MOST_ARCHIVES", 2)
    for number in range(4):
        os.utime(archive(tmp_path / str(number)), (number, number))

    assert [each.name for each in newest.archives_in(tmp_path)] == ["3", "2"]


def test_the_dashboard_shows_all_and_says_which_ended_last(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _tell_newest(runs)
    said = capsys.readouterr().err

    assert f"{runs} holds 4 archives; the last that ended is second" in said
    assert f"it alone by: lockstep dashboard {runs / 'second'}" in said


def test_the_dashboard_of_a_folder_without_archives_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _tell_newest(tmp_path)

    assert "holds no run that ended" in capsys.readouterr().err
