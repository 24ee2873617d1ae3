"""Nested a hundred thousand deep: every file that a command reads, and every answer."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstep.analyzer.findings.alertmanager.webhook import WebhookError
from lockstep.analyzer.findings.alertmanager.webhook import parse as parse_webhook
from lockstep.analyzer.read.prometheus.access import SourceError as AnswerError
from lockstep.analyzer.read.prometheus.answers import decode
from lockstep.collector.contract.archive import (
    FINDING_FILE,
    RESULTS_FILE,
    RUN_FILE,
    TRUTH_FILE,
    VERDICT_FILE,
)
from lockstep.collector.contract.words import ExitCode
from lockstep.collector.formats.nccl_inspector import LineError, _understood
from lockstep.collector.readings.source import SourceError
from lockstep.collector.recorder.rows import AnswerError as OpsError
from lockstep.collector.recorder.rows import rank_answers
from lockstep.collector.sources.gpu.simulated import parse as parse_device
from lockstep.collector.sources.nccl.ras import document
from lockstep.runs import results, truth
from lockstep.terminal.output import CommandError
from lockstep.watch.judge.memory import MemoryFileError, from_json
from lockstep.workloads.launch.joining.job_file import JobError
from lockstep.workloads.launch.joining.job_file import read as read_job
from tests.attack import archives

DEPTHS = (70, 990, 100_000)


def deep(levels: int) -> str:
    return '{"a":' * (levels // 2) + "[" * (levels // 2) + "]" * (levels // 2) + "}" * (levels // 2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archives.made(tmp_path_factory.mktemp("deep") / "archive", sick=True)


@pytest.mark.parametrize("levels", DEPTHS)
@pytest.mark.parametrize("command", ["analyze", "report"])
def test_a_deep_run_file_is_bad_input(
    whole: Path, tmp_path: Path, lockstep: Callable[..., Any], command: str, levels: int
) -> None:
    folder = tmp_path / "archive"
    shutil.copytree(whole, folder)
    tree = json.loads((folder / RUN_FILE).read_text())
    (folder / RUN_FILE).write_text(
        json.dumps({**tree, "x": 0}).replace('"x": 0', f'"x": {deep(levels)}')
    )
    answer = lockstep(command, folder)

    assert (ExitCode.BAD_INPUT, "") == (answer.code, answer.out)
    assert "nested deeper than 64" in answer.err
    assert 1 == len(answer.err.splitlines())


@pytest.mark.parametrize("levels", DEPTHS)
def test_deep_files_beside_it_stop_nobody(
    whole: Path, tmp_path: Path, lockstep: Callable[..., Any], levels: int
) -> None:
    folder = tmp_path / "archive"
    shutil.copytree(whole, folder)
    for name in (VERDICT_FILE, FINDING_FILE, RESULTS_FILE, TRUTH_FILE):
        (folder / name).write_text(deep(levels))
    shutil.copytree(folder, tmp_path / "beside")  # where the past is looked for
    answer = lockstep("analyze", folder, "-o", "json")

    assert ExitCode.CULPRIT == answer.code, answer
    assert [archives.SLOW] == [each["rank"] for each in json.loads(answer.out)["culprits"]]
    assert None is results.read(folder)
    with pytest.raises(CommandError) as caught:
        truth.read(tmp_path / "beside")
    assert ExitCode.BAD_INPUT == caught.value.code


@pytest.mark.sweep
@pytest.mark.parametrize("levels", DEPTHS)
@pytest.mark.parametrize(
    ("parse", "error"),
    [
        (lambda text: decode(text.encode(), "http://127.0.0.1"), AnswerError),
        (lambda text: rank_answers(text.encode(), "run"), OpsError),
        (lambda text: parse_webhook(text.encode()), WebhookError),
        (from_json, MemoryFileError),
        (document.parse, SourceError),
        (lambda text: parse_device(text.encode()), SourceError),
        (lambda text: _understood(text.encode()), LineError),
        (lambda text: read_job(text.replace("[", "{", 1)), JobError),
    ],
)
def test_a_deep_answer_is_its_sources_own_error(
    parse: Callable[[str], Any], error: type[Exception], levels: int
) -> None:
    with pytest.raises(error):
        parse(deep(levels))
