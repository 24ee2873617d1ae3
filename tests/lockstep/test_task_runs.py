"""Each reference run from the command line, as real processes, and what it says it found."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


def run(archive: Path, *words: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """What it prints, results.json and run.json."""
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", "run", *words, "--no-verdict", "--out", str(archive)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    results = json.loads((archive / "results.json").read_bytes())
    return done.stdout, results, json.loads((archive / "run.json").read_bytes())


def test_logistic_regression_reaches_its_goal_and_stops_there(tmp_path: Path) -> None:
    said, results, told = run(
        tmp_path / "archive", "logreg", "--nodes", "2", "--steps", "200", "--eval-every", "20",
        "--goal", "light", "--stop-at-goal",
    )  # fmt: skip
    reached = results["goal"]["reached"]

    assert 0.8 <= reached["value"]
    assert reached["step"] == results["evaluations"][-1]["step"] < 199
    assert "80% Top 1 Validation Accuracy reached in" in said
    assert "synthetic data: not an MLBench result" in said
    assert told["data"].startswith("synthetic")
    assert not (tmp_path / "archive" / "truth.json.new").exists()


def test_resnet_trains_and_tells_its_throughput(tmp_path: Path) -> None:
    said, results, told = run(
        tmp_path / "archive", "resnet", "--nodes", "2", "--steps", "120", "--micro-batch", "2",
        "--eval-every", "0",
    )  # fmt: skip
    rate = results["throughput"]
    low, high = rate["confidence_interval_95"]

    assert [] == results["evaluations"]
    assert low <= rate["samples_per_second_per_rank"] <= high
    assert "horovod" in said
    assert 269722 == told["parameters"]
    assert "synthetic" == told["data"]


def test_an_all_reduce_run_prints_its_bandwidths_and_probes(tmp_path: Path) -> None:
    said, results, _ = run(
        tmp_path / "archive", "allreduce", "--nodes", "4", "--steps", "12", "--probe",
        "--sizes", "1K:64K:3",
    )  # fmt: skip

    assert [1024, 8192, 65536] == [row["bytes"] for row in results["sweep"]]
    assert {0} == {row["wrong"] for row in results["sweep"]}
    assert "busbw" in said
    assert results["probe"]["finding"]["text"] in said


def test_a_time_budget_ends_a_run_with_an_evaluation(tmp_path: Path) -> None:
    _, results, _ = run(
        tmp_path / "archive", "gpt", "--nodes", "2", "--steps", "2000", "--eval-every", "1000",
        "--time-budget", "3",
    )  # fmt: skip
    (only,) = results["evaluations"]

    assert only["step"] < 999
    assert 3.0 == results["accuracy_after_time"]["budget_seconds"]
