"""The archive of a finding: `report`, `analyze` and the post-mortem agree with what was told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analyzer.run import Fact
from analyzer.watch.concluded import concluded
from analyzer.watch.finding import Kind, Tier, WatchFinding, Who, finding_json
from collector.contract.words import ExitCode
from lockstep import diagnosis
from lockstep.postmortem import write_report

XID = WatchFinding(
    who=Who("gpt", "node-2", 5, 1, None), kind=Kind.EVENT, scope="gpu", attempt=0, cause="xid",
    tier=Tier.PAGE, confidence=0.95, slowdown=None, onset=990.0, first_seen=995.0, opened=1000.0,
    seen=1000.0, closed=None, sentence="XID 79: rank 5 on node-2 lost its GPU.",
    facts=(Fact(True, "XID 79 at step 7", "q"),), folder="gpt/x", from_step=7,
)  # fmt: skip


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Of a finding, without samples."""
    folder = tmp_path / "gpt" / "x"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"schema_version": 1, "run": "gpt"}))
    (folder / "finding.json").write_text(json.dumps(finding_json(XID)))
    diagnosis.write_verdict(concluded(XID, None, None, ["no samples: too late"]), folder)
    return folder


def title_and_ranks(folder: Path) -> tuple[str, list[int]]:
    tree = json.loads((folder / "report.json").read_text())
    return tree["title"], [each["rank"] for each in tree["verdict"]["culprits"]]


def test_the_post_mortem_names_whom_the_page_named(archive: Path) -> None:
    write_report(archive)
    text = (archive / "report.md").read_text()

    assert ("Rank 5 on node-2 holds the run back: xid", [5]) == title_and_ranks(archive)
    assert "when it opened: XID 79: rank 5 on node-2 lost its GPU." in text
    assert "XID 79 at step 7" in text
    assert "no samples: too late" in text


def test_a_report_after_an_analysis_still_does(archive: Path, lockstep: Callable[..., Any]) -> None:
    analysis = lockstep("analyze", archive)
    report = lockstep("report", archive, "--format", "json")

    assert (ExitCode.CULPRIT, ExitCode.OK) == (analysis.code, report.code), report.err
    assert "XID 79 at step 7" in analysis.out
    assert ("Rank 5 on node-2 holds the run back: xid", [5]) == title_and_ranks(archive)
