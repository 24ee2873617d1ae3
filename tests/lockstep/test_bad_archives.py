"""Archives that cannot be read: one sentence, exit 65, nothing half-written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockstep.collector.contract.archive import OPS_FILE, RUN_FILE, SAMPLES_FILE, STEPS, STEPS_FILE
from lockstep.collector.contract.words import ExitCode


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


@pytest.mark.parametrize(
    ("name", "value"),
    [("layout", {"nodes": "x"}), ("layout", {"nodes": 0}), ("layout", [1]), ("spec", "abc"),
     ("versions", 3), ("recording", "none")],
)  # fmt: skip
def test_a_run_file_with_values_of_another_kind(
    tmp_path: Path, command: Callable[..., Any], name: str, value: object
) -> None:
    (tmp_path / RUN_FILE).write_text(json.dumps({"schema_version": 1, "run": "x", name: value}))

    refused(command(tmp_path), RUN_FILE, name)


@pytest.mark.parametrize(
    ("column", "value", "named"),
    [("step", -5, "step"), ("rank", -1, "rank"), ("start", 1e300, "start"),
     ("start", -1e300, "start"), ("own_seconds", -0.1, "a duration"),
     ("wall_seconds", 1e12, "a duration")],
)  # fmt: skip
def test_steps_that_no_run_can_have(
    tmp_path: Path, command: Callable[..., Any], column: str, value: float, named: str
) -> None:
    _steps(tmp_path, **{column: value})

    refused(command(tmp_path), STEPS_FILE, f"impossible value for {named}")


def test_clocks_that_never_answered_are_unknown_and_no_bug(
    tmp_path: Path, lockstep: Callable[..., Any]
) -> None:
    _steps(tmp_path, own_seconds=0.0, wall_seconds=0.0)
    answer = lockstep("analyze", tmp_path)

    assert answer.code == ExitCode.UNKNOWN
    assert answer.err == ""


def _steps(folder: Path, **changed: float) -> None:
    """An archive of two ranks and ten steps with one column changed."""
    (folder / RUN_FILE).write_text(json.dumps({"schema_version": 1, "run": "x"}))
    numbers = {each.name: 0.0 for each in STEPS if each.dtype in ("float64", "int64")}
    rows = [
        {**numbers, "step": step, "rank": rank, "attempt": 0, "start": 1e9 + step, "tags": "",
         "wall_seconds": 0.05, "own_seconds": 0.04, **changed}
        for step in range(10)
        for rank in range(2)
    ]  # fmt: skip
    schema = pa.schema([(each.name, each.dtype) for each in STEPS])
    table = {name: pa.array([row[name] for row in rows]).cast(schema.field(name).type)
             for name in schema.names}  # fmt: skip
    pq.write_table(pa.table(table, schema), folder / STEPS_FILE)
