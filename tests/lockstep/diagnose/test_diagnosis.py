"""Exit codes of verdicts, and files that are whole or not there."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstep.analyzer.shapes.run import Verdict
from lockstep.collector.contract.words import ExitCode
from lockstep.commands.analyze import table
from lockstep.diagnose import diagnosis
from lockstep.terminal.output import CommandError


def test_a_healthy_verdict_exits_0(verdict: Callable[..., Verdict]) -> None:
    assert diagnosis.exit_code(verdict("healthy")) == ExitCode.OK


@pytest.mark.parametrize("tiers", [("record",), ("page",), ("record", "page")])
def test_a_culprit_of_either_tier_exits_2(
    verdict: Callable[..., Verdict], culprit: Callable[..., Any], tiers: tuple[str, ...]
) -> None:
    named = verdict("degraded", *map(culprit, tiers))

    assert diagnosis.exit_code(named) == ExitCode.CULPRIT


@pytest.mark.parametrize(
    ("status", "code"),
    [("healthy", ExitCode.WARNING), ("degraded", ExitCode.WARNING), ("unknown", ExitCode.UNKNOWN)],
)
def test_hardware_that_deviates_beside_a_healthy_run_exits_1(
    verdict: Callable[..., Verdict], status: str, code: int
) -> None:
    beside = replace(verdict(status), anomalies=({"text": "hot"},))

    assert diagnosis.exit_code(beside) == code


def test_a_hang_exits_2(verdict: Callable[..., Verdict]) -> None:
    assert diagnosis.exit_code(verdict("degraded", hang=True)) == ExitCode.CULPRIT


def test_too_little_data_exits_3(verdict: Callable[..., Verdict]) -> None:
    assert diagnosis.exit_code(verdict("unknown")) == ExitCode.UNKNOWN


def test_a_slow_run_without_a_culprit_exits_1(verdict: Callable[..., Verdict]) -> None:
    assert diagnosis.exit_code(verdict("degraded")) == ExitCode.WARNING


def test_the_table_shows_evidence_and_what_was_missing(
    verdict: Callable[..., Verdict], culprit: Callable[..., Any]
) -> None:
    text = table(verdict("degraded", culprit()))

    assert text.startswith("A sentence.")
    assert "node-2" in text
    assert "+ it was hot" in text
    assert "missing: nothing" in text


def test_verdict_json_is_replaced_whole(tmp_path: Path, verdict: Callable[..., Verdict]) -> None:
    (tmp_path / "verdict.json").write_text("old and much longer than nothing" * 1000)
    path = diagnosis.write_verdict(verdict("healthy"), tmp_path)

    assert json.loads(path.read_text())["status"] == "healthy"
    assert os.listdir(tmp_path) == ["verdict.json"]


def test_a_price_must_be_a_number(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="not a price") as caught:
        diagnosis.diagnose_archive(tmp_path, float("nan"))

    assert caught.value.code == ExitCode.USAGE
