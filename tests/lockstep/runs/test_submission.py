"""When a scheduler was asked for a run, and for whom."""

import json
import os
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lockstep.runs import archive
from lockstep.runs import cluster_options as submission
from lockstep.runs.planning import plan


def planned():
    return plan(
        "gpt", nodes=1, ranks_per_node=2, steps=20, seed=1, faults=[], token="0000"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("told", "when"),
    [
        ("1700000000", datetime.fromtimestamp(1_700_000_000, UTC)),
        ("1700000000.5", datetime.fromtimestamp(1_700_000_000.5, UTC)),
        ("2026-11-20T10:15:00Z", datetime(2026, 11, 20, 10, 15, tzinfo=UTC)),
        ("2026-11-20T10:15:00", None),  # of which place?
        ("yesterday", None),
        ("999999999999999", None),
        ("", None),
    ],
)
def test_the_environment_says_when(told: str, when: datetime | None):
    assert submission.submitted({"LOCKSTEP_SUBMITTED": told}) == when


def test_slurms_controller_says_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    program = tmp_path / "scontrol"
    program.write_text('#!/bin/sh\necho "JobId=$5 SubmitTime=2026-11-20T10:15:00 EligibleTime=x"\n')
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    told = submission.submitted({"SLURM_JOB_ID": "17"})
    assert told == datetime(2026, 11, 20, 10, 15, tzinfo=UTC)
    program.write_text("#!/bin/sh\nexit 1\n")
    assert submission.submitted({"SLURM_JOB_ID": "17"}) is None
    assert submission.submitted({"SLURM_JOB_ID": "17; rm"}) is None


def test_the_team_is_as_given_or_the_slurm_account():
    assert submission.team("vision", {"SLURM_JOB_ACCOUNT": "other"}) == "vision"
    assert submission.team(None, {"SLURM_JOB_ACCOUNT": "other"}) == "other"
    assert submission.team(None, {}) == ""


def test_run_json_tells_team_and_submission(tmp_path: Path):
    from dataclasses import replace

    spec = replace(planned(), team="vision")
    begun = datetime.now(UTC)
    archive.write_start(tmp_path, spec, begun, begun - timedelta(seconds=90))
    told = json.loads((tmp_path / "run.json").read_text())
    assert told["labels"] == {"team": "vision"}
    assert told["submitted"] == (begun - timedelta(seconds=90)).isoformat()
    assert "--team vision" in told["command"]


def test_a_checkpoint_that_was_read_comes_into_run_json(tmp_path: Path):
    from lockstep.workloads.loop.resume import RESTORED, tell_restored

    spec = planned()
    tell_restored(tmp_path / RESTORED, 0, 1_000_000_000, 2_500_000_000)
    (tmp_path / RESTORED / "rank-1.json").write_text("torn {")
    assert archive._restored(tmp_path, spec) == {"0": [1.0, 2.5]}
    assert not (tmp_path / RESTORED).exists()


def test_what_ranks_told_of_their_start_comes_into_run_json(tmp_path: Path):
    from lockstep.workloads.measure.starting import STARTING

    spec = planned()
    (tmp_path / STARTING).mkdir()
    (tmp_path / STARTING / "rank-0.json").write_text('{"load": [[1.5, null]]}')
    (tmp_path / STARTING / "rank-1.json").write_text("torn {")
    (tmp_path / STARTING / "rank-99.json").write_text("{}")
    assert archive._starting(tmp_path, spec) == {"0": {"load": [[1.5, None]]}}
    assert not (tmp_path / STARTING).exists()


def test_pods_of_a_run_are_read_from_the_folder_of_who_submitted_it(tmp_path: Path):
    from lockstep.analyzer.read.archive.load import _pods

    archived, beside = tmp_path / "run", tmp_path / "run.launch"
    for folder in (archived, beside):
        folder.mkdir()
    assert _pods(archived) == {}
    (beside / "cluster.json").write_text('{"pods": {"a": {"node": "n"}}}')
    assert _pods(archived) == {"a": {"node": "n"}}
    (archived / "cluster.json").write_text('{"pods": 3}')
    assert _pods(archived) == {"a": {"node": "n"}}
