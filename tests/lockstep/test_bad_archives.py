"""Archives that cannot be read: one sentence, exit 65, nothing half-written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collector.contract.archive import OPS_FILE, RUN_FILE, SAMPLES_FILE, STEPS_FILE
from collector.contract.words import ExitCode


@pytest.fixture(params=["analyze", "report"])
def command(request: pytest.FixtureRequest, lockstep: Callable[..., Any]) -> Callable[..., Any]:
    return lambda folder: lockstep(request.param, folder)


def refused(answer: Any, *words: str) -> None:
    assert answer.code == ExitCode.BAD_INPUT
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1
    for word in words:
        assert word in answer.err


def test_an_archive_that_is_not_there(tmp_path: Path, command: Callable[..., Any]) -> None:
    refused(command(tmp_path / "nowhere"), "nowhere")


def test_a_folder_that_is_no_archive(tmp_path: Path, command: Callable[..., Any]) -> None:
    refused(command(tmp_path), RUN_FILE)

    assert list(tmp_path.iterdir()) == []


def test_a_truncated_run_file(tmp_path: Path, command: Callable[..., Any]) -> None:
    (tmp_path / RUN_FILE).write_text('{"schema_version": 1, "ru')

    refused(command(tmp_path), RUN_FILE)


def test_another_schema_version(tmp_path: Path, command: Callable[..., Any]) -> None:
    (tmp_path / RUN_FILE).write_text(json.dumps({"schema_version": 99, "run": "x"}))

    refused(command(tmp_path), "99", "1")


@pytest.mark.parametrize("name", [STEPS_FILE, OPS_FILE, SAMPLES_FILE])
def test_a_truncated_part_file(tmp_path: Path, command: Callable[..., Any], name: str) -> None:
    (tmp_path / RUN_FILE).write_text(json.dumps({"schema_version": 1, "run": "x"}))
    (tmp_path / name).mkdir()
    (tmp_path / name / "part-0.parquet").write_bytes(b"PAR1 and then the disk was full")

    refused(command(tmp_path), name)

    assert not (tmp_path / "verdict.json").exists()
    assert not list(tmp_path.glob("report.*"))
