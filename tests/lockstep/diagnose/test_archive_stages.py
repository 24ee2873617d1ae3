"""What stands beside a run in its archive: a finding of watch, and past runs in the same folder."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lockstep.analyzer.findings.finding import Kind, Tier, WatchFinding, Who, finding_json
from lockstep.analyzer.shapes.run import Fact
from lockstep.analyzer.shapes.wording import hours
from lockstep.collector.contract.words import ExitCode
from lockstep.watch.archive.report_worker import write_report
from tests.analyzer.conftest import Fault, Synthetic

XID = WatchFinding(
    who=Who("gpt", "node-2", 5, 1, None), kind=Kind.EVENT, scope="gpu", attempt=0, cause="xid",
    tier=Tier.PAGE, confidence=0.95, slowdown=None, onset=990.0, first_seen=995.0, opened=1000.0,
    seen=1000.0, closed=None, sentence="XID 79: rank 5 on node-2 lost its GPU.",
    facts=(Fact(True, "XID 79 at step 7", "q"),), folder="gpt/x", from_step=7,
)  # fmt: skip


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """Of a finding, without samples."""
    folder = tmp_path / "gpt" / "x"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({
        "schema_version": 1, "run": "gpt", "missing": ["no samples: too late"],
    }))  # fmt: skip
    (folder / "finding.json").write_text(json.dumps(finding_json(XID)))
    return folder


def printed(lockstep: Callable[..., Any], folder: Path, *more: str) -> tuple[int, dict[str, Any]]:
    given = lockstep("analyze", folder, "-o", "json", *more)
    return given.code, json.loads(given.out)


FAULTS = {
    "healthy": [], "of whom it tells": [Fault("thermal", 2)], "another": [Fault("thermal", 1)],
}  # fmt: skip


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS.keys())
def test_the_verdict_is_the_same_without_what_watch_told(
    lockstep: Callable[..., Any], tmp_path: Path, faults: list[Fault]
) -> None:
    # Apart, since past runs that stand beside an archive are counted.
    alone, told = (tmp_path / name / "findings" / name / "x" for name in ("alone", "told"))
    alone.parent.mkdir(parents=True)
    Synthetic(faults=faults).write(alone)
    shutil.copytree(alone, told)
    run = json.loads((alone / "run.json").read_text())["run"]
    finding = replace(XID, who=Who(run, "node-2", 2, 0, None))
    (told / "finding.json").write_text(json.dumps(finding_json(finding)))
    # Of an earlier version of watch: its culprits were another's.
    (told / "verdict.json").write_text(json.dumps({
        "schema_version": 1, "run": run, "status": "degraded", "sentence": XID.sentence,
        "culprits": [{"scope": "gpu", "rank": 2, "node": "node-2", "cause": "xid"}],
    }))  # fmt: skip

    first, second = printed(lockstep, alone), printed(lockstep, told)

    assert first[0] == second[0]
    assert second == printed(lockstep, told), "what it wrote itself changes nothing"
    history, sentence = second[1].pop("history"), second[1].pop("sentence")
    assert [] == first[1].pop("history")
    assert sentence.startswith(first[1].pop("sentence"))
    assert first[1] == second[1]
    assert [(2, "node-2", "xid")] == [(one["rank"], one["node"], one["cause"]) for one in history]
    assert ("Watch named rank 2 on node-2 (xid" in sentence) is not history[0]["agrees"]


def test_the_sentence_has_the_cost_until_the_finding_was_closed(
    lockstep: Callable[..., Any], tmp_path: Path
) -> None:
    """Also where it ends with what was emulated."""
    Synthetic(faults=[Fault("thermal", 2)]).write(tmp_path / "run")
    run = json.loads((tmp_path / "run" / "run.json").read_text())["run"]
    finding = finding_json(replace(XID, who=Who(run, "node-2", 2, 0, None)))
    closed = {"closed": 9000.0, "lost_seconds": 7200.0}
    (tmp_path / "run" / "finding.json").write_text(json.dumps({**finding, **closed}))

    _, verdict = printed(lockstep, tmp_path / "run")

    assert 2.0 == verdict["lost_gpu_hours"]
    assert f"{hours(2.0)} are lost" in verdict["sentence"]
    assert 1 == verdict["sentence"].count("are lost")
    assert "(emulated devices, simulated GPU telemetry)." in verdict["sentence"]


def test_a_part_of_a_run_is_one_of_the_whole_run_with_its_coverage_and_cost(
    lockstep: Callable[..., Any], tmp_path: Path
) -> None:
    Synthetic(faults=[Fault("thermal", 2)]).write(tmp_path / "run")
    _, part = printed(lockstep, tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    answered = {"answered": {"told": 12, "expected": 16}}
    path.write_text(json.dumps({**json.loads(path.read_text()), **answered}))

    _, whole = printed(lockstep, tmp_path / "run")

    assert part["culprits"] == whole["culprits"]
    assert pytest.approx(0.75 * part["coverage"]) == whole["coverage"]
    assert pytest.approx(4 * part["lost_gpu_hours"], rel=1e-4) == whole["lost_gpu_hours"]


def test_who_was_told_of_is_said_at_once_where_the_archive_names_nobody(
    lockstep: Callable[..., Any], empty: Path
) -> None:
    analysis = lockstep("analyze", empty)

    assert ExitCode.UNKNOWN == analysis.code
    first, _, then, *_ = analysis.out.splitlines()
    assert first.endswith(
        "Watch named rank 5 on node-2 (xid, confidence 0.95) at 1970-01-01 00:16:40 UTC, by an"
        " error that was logged; this archive alone names nobody."
    )
    assert "what watch reported then:" == then
    assert f'"{XID.sentence}"' in analysis.out
    assert "+ XID 79 at step 7" in analysis.out
    assert "no samples: too late" in analysis.out


def test_the_post_mortem_tells_what_the_page_said_and_by_what(empty: Path) -> None:
    write_report(empty)
    tree = json.loads((empty / "report.json").read_text())
    text = (empty / "report.md").read_text()

    assert "No place can be named; watch reported rank 5 on node-2: xid" == tree["title"]
    assert [] == tree["verdict"]["culprits"]
    assert "when it opened: XID 79: rank 5 on node-2 lost its GPU." in text
    assert "XID 79 at step 7" in text
    assert "no samples: too late" in text


def test_a_report_after_an_analysis_says_the_same(
    lockstep: Callable[..., Any], empty: Path
) -> None:
    lockstep("analyze", empty)
    before = json.loads((empty / "verdict.json").read_text())
    report = lockstep("report", empty, "--format", "json")

    assert ExitCode.OK == report.code, report.err
    assert before == json.loads((empty / "report.json").read_text())["verdict"]


def with_verdict(folder: Path, text: str) -> Path:
    """A past run of the same ranks, which ended before; and what its verdict.json says."""
    Synthetic(seed=9, steps=30).write(folder)
    path = folder / "run.json"
    meta = json.loads(path.read_text())
    ended = datetime.fromtimestamp(meta["ended"] - 3600.0, UTC).isoformat()
    path.write_text(json.dumps({**meta, "ended": ended}))
    (folder / "verdict.json").write_text(text)
    return folder


def test_culprits_are_counted_in_past_runs_and_what_cannot_be_read_is_missing(
    lockstep: Callable[..., Any], tmp_path: Path
) -> None:
    Synthetic(faults=[Fault("thermal", 2)]).write(tmp_path / "now")
    culprit = {"node": "node-2", "uuid": None, "cause": "thermal", "slowdown": 1.5}
    with_verdict(tmp_path / "past", json.dumps({"culprits": [culprit]}))
    with_verdict(tmp_path / "torn", "{")

    _, verdict = printed(lockstep, tmp_path / "now")
    table = lockstep("analyze", tmp_path / "now").out

    assert ("node", 1, 1) in [
        (row["by"], row["culprit_runs"], row["runs"]) for row in verdict["recurrence"]
    ]
    assert "1 past runs in the same folder cannot be read" in verdict["missing"]
    assert "before:\n" in table
    assert "node-2 was a culprit in 1 of the 1 runs" in table


def test_of_a_healthy_run_no_past_run_is_read(lockstep: Callable[..., Any], tmp_path: Path) -> None:
    Synthetic().write(tmp_path / "now")
    with_verdict(tmp_path / "torn", "{")

    _, verdict = printed(lockstep, tmp_path / "now")

    assert [] == verdict["recurrence"]
    assert not [words for words in verdict["missing"] if "past runs" in words]
