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


@pytest.mark.parametrize(
    ("status", "tiers", "more", "code"),
    [
        ("healthy", (), {}, ExitCode.OK),
        ("healthy", (), {"anomalies": ({"text": "hot"},)}, ExitCode.WARNING),
        ("degraded", (), {}, ExitCode.WARNING),
        ("degraded", (), {"anomalies": ({"text": "hot"},)}, ExitCode.WARNING),
        ("degraded", ("record",), {}, ExitCode.CULPRIT),
        ("degraded", ("page",), {}, ExitCode.CULPRIT),
        ("degraded", ("record", "page"), {}, ExitCode.CULPRIT),
        ("degraded", (), {"hang": {"group": "dp"}}, ExitCode.CULPRIT),
        ("unknown", (), {}, ExitCode.UNKNOWN),
        ("unknown", (), {"anomalies": ({"text": "hot"},)}, ExitCode.UNKNOWN),
    ],
)
def test_a_verdict_is_its_exit_code(
    verdict: Callable[..., Verdict], culprit: Callable[..., Any], status: str,
    tiers: tuple[str, ...], more: dict[str, Any], code: int,
) -> None:  # fmt: skip
    assert code == diagnosis.exit_code(replace(verdict(status, *map(culprit, tiers)), **more))


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
