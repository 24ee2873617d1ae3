"""`lockstep report`: its files, its baseline, and archives that lack nearly all."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lockstep.collector.contract.archive import RUN_FILE
from lockstep.collector.contract.words import ExitCode


def archive(folder: Path, name: str) -> Path:
    folder.mkdir()
    (folder / RUN_FILE).write_text(json.dumps({"schema_version": 1, "run": name}))
    return folder


def test_an_archive_without_data_gets_a_report_that_says_so(
    tmp_path: Path, lockstep: Callable[..., Any]
) -> None:
    folder = archive(tmp_path / "run", "\ud800 <script>")
    answer = lockstep("report", folder, "--format", "md,json")
    tree = json.loads((folder / "report.json").read_text())

    assert ExitCode.OK == answer.code, answer.err
    assert [str(folder / "report.md"), str(folder / "report.json")] == answer.out.split()
    assert "unknown" == tree["status"]
    assert "no steps.parquet" in (folder / "report.md").read_text()


def test_a_baseline_that_is_no_archive_is_bad_input(
    tmp_path: Path, lockstep: Callable[..., Any]
) -> None:
    folder = archive(tmp_path / "run", "run")
    answer = lockstep("report", folder, "--baseline", tmp_path / "nowhere")

    assert ExitCode.BAD_INPUT == answer.code
    assert "nowhere" in answer.err
    assert [RUN_FILE] == [each.name for each in folder.iterdir()]


def test_a_baseline_without_data_is_compared_with_all_the_same(
    tmp_path: Path, lockstep: Callable[..., Any]
) -> None:
    folder, other = archive(tmp_path / "run", "run"), archive(tmp_path / "other", "other")
    answer = lockstep("report", folder, "--baseline", other, "--format", "md")

    assert ExitCode.OK == answer.code, answer.err
    assert "## Against the baseline" in (folder / "report.md").read_text()
