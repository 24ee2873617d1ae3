"""The demo ends with a verdict beside the truth, and does not hide when they differ."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lockstep.collector.contract.words import ExitCode
from lockstep.diagnose import diagnosis
from lockstep.runs import observe
from lockstep.workloads.launch.launcher import Ending, Outcome

FAULT = {
    "kind": "thermal", "cause": "thermal", "rank": 2, "node": "node-2", "from_step": 100,
    "to_step": 300, "factor_intended": 1.5, "factor_measured": 1.49,
}  # fmt: skip


@dataclass(frozen=True)
class Diagnosed:
    verdict: Any


@pytest.fixture
def demo(
    tmp_path: Path, lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """`demo(verdict, ending)`: the demo with a run and an analysis of our own."""

    def execute(spec: Any, out: Path, *_: Any) -> Outcome:
        (out / "truth.json").write_text(json.dumps({"schema_version": 1, "faults": [FAULT]}))
        return Outcome(endings[0], reason="somebody tripped")

    endings: list[Ending] = []

    def call(verdict: Any, ending: Ending = Ending.FINISHED) -> Any:
        endings.append(ending)
        monkeypatch.setattr(observe, "execute", execute)
        monkeypatch.setattr(diagnosis, "diagnose_archive", lambda archive: Diagnosed(verdict))
        monkeypatch.setattr(diagnosis, "write_reports", lambda *_: [tmp_path / "report.html"])
        return lockstep("demo", "--out", tmp_path)

    return call


def test_a_demo_shows_verdict_truth_origin_and_report(
    demo: Callable[..., Any], verdict: Callable[..., Any], culprit: Callable[..., Any]
) -> None:
    answer = demo(verdict("degraded", culprit()))

    assert answer.code == ExitCode.OK
    for words in ("A sentence.", "1.49x measured", "emulated", "simulated", "report.html"):
        assert words in answer.out


def test_a_demo_whose_verdict_is_wrong_exits_70(
    demo: Callable[..., Any], verdict: Callable[..., Any], culprit: Callable[..., Any]
) -> None:
    answer = demo(verdict("degraded", culprit(rank=1)))

    assert answer.code == ExitCode.INTERNAL
    assert "the verdict is wrong" in answer.err


def test_an_interrupted_demo_exits_130(
    demo: Callable[..., Any], verdict: Callable[..., Any]
) -> None:
    assert demo(verdict(), Ending.INTERRUPTED).code == ExitCode.INTERRUPTED


def test_a_demo_whose_run_broke_says_why(
    demo: Callable[..., Any], verdict: Callable[..., Any]
) -> None:
    answer = demo(verdict(), Ending.CRASH)

    assert answer.code == ExitCode.INTERNAL
    assert "somebody tripped" in answer.err


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.timeout(900)
def test_the_demo_finds_its_straggler(tmp_path: Path, decided: Callable[..., Any]) -> None:
    answers: list[subprocess.CompletedProcess[str]] = []
    archives: list[Path] = []

    def show(attempt: int) -> list[str]:
        archives.append(tmp_path / f"run-{attempt}")
        words = ["demo", "--out", str(archives[-1]), "--seed", "1"]
        answers.append(
            subprocess.run(
                [sys.executable, "-m", "lockstep", *words],
                capture_output=True, text=True, timeout=240,
            )
        )  # fmt: skip
        return [(archives[-1] / "verdict.json").read_text()]

    decided(show)

    assert answers[-1].returncode == ExitCode.OK, answers[-1].stderr
    assert "Rank 2 (node-2" in answers[-1].stdout
    for name in ("report.html", "report.md", "report.json", "verdict.json"):
        assert (archives[-1] / name).stat().st_size > 0
