"""A live run is shown as watch tells of it, whatever its archive shows alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.sources.prometheus import folders
from lockstep.dashboard.words.verdict import severity

TOLD = {"rank": 5, "node": "node-2", "cause": "xid", "tier": "page", "agrees": False,
        "place_agrees": False, "sentence": "XID 79: rank 5 lost its GPU."}  # fmt: skip


@pytest.fixture
def findings(tmp_path: Path) -> Path:
    folder = tmp_path / "gpt-1" / "20261120T000000Z-rank-5"
    folder.mkdir(parents=True)
    (folder / "finding.json").write_text(json.dumps({"run": "gpt-1"}))
    return tmp_path


def kept(findings: Path, **changed: Any) -> dict[str, Any]:
    """The run's verdict, where its archive's is healthy but for what is changed."""
    tree = {"schema_version": 1, "run": "gpt-1", "status": "healthy", "culprits": [],
            "sentence": "Healthy. Watch named rank 5 …"} | changed  # fmt: skip
    [folder] = (findings / "gpt-1").iterdir()
    (folder / "verdict.json").write_text(json.dumps(tree))
    return dict(folders.verdict(findings, "gpt-1") or {})


def test_who_watch_told_of_is_named_though_the_archive_names_nobody(findings: Path) -> None:
    told = kept(findings, history=[TOLD])

    assert ("degraded", TOLD["sentence"], [TOLD]) == (
        told["status"], told["sentence"], told["culprits"],
    )  # fmt: skip
    assert Severity.CRITICAL == severity(told)


def test_and_before_whom_else_the_archive_names(findings: Path) -> None:
    told = kept(findings, history=[TOLD], status="degraded", culprits=[{"rank": 0}])

    assert [5, 0] == [each["rank"] for each in told["culprits"]]


@pytest.mark.parametrize("history", [[], None, "all", [3], [{**TOLD, "place_agrees": True}]])
def test_where_both_say_the_same_the_verdict_is_the_archives(findings: Path, history: Any) -> None:
    assert ("healthy", []) == tuple(
        kept(findings, history=history)[name] for name in ("status", "culprits")
    )


def test_an_archive_that_clears_whom_somebody_was_told_of_is_no_green_page() -> None:
    healthy = {"status": "healthy", "culprits": [], "history": [TOLD]}

    assert Severity.WARNING == severity(healthy)
    assert Severity.OK == severity({**healthy, "history": [{**TOLD, "agrees": True}]})
