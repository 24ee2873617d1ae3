"""Past verdicts in the folder of an archive: which are read, and what is wrong with the others."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockstep.analyzer.read.verdicts import siblings


def _archive(folder, name, *, node="host-1", emulated=False, ended="2026-11-20T00:00:00+00:00"):
    here = folder / name
    here.mkdir()
    meta = {"run": name, "started": ended, "ended": ended, "emulated_nodes": emulated}
    (here / "run.json").write_text(json.dumps(meta))
    culprit = {"node": node, "uuid": "GPU-1", "cause": "thermal", "slowdown": 1.5}
    (here / "verdict.json").write_text(json.dumps({"culprits": [culprit]}))
    pq.write_table(pa.table({"node": ["host-0", node], "uuid": ["GPU-0", "GPU-1"]}),
                   here / "ranks.parquet")  # fmt: skip
    return here


def test_only_a_run_that_hung_was_stopped(tmp_path):
    """A culprit out of hardware alone has no slowdown, and the run went on."""
    mine = _archive(tmp_path, "mine")
    for name, hang in (("hung", {"op": "dp-all-reduce"}), ("went-on", None)):
        past = _archive(tmp_path, name)
        culprit = {"node": "host-1", "uuid": "GPU-1", "cause": "xid", "slowdown": None}
        (past / "verdict.json").write_text(json.dumps({"culprits": [culprit], "hang": hang}))

    stopped = {run.run: run.culprits[0].stopped for run in siblings(mine).runs}
    assert {"hung": True, "went-on": False} == stopped


@pytest.mark.parametrize(("agrees", "known"), [(True, ["host-0"]), (False, ["host-0", "host-1"])])
def test_who_watch_told_of_was_one_though_the_archive_names_another(tmp_path, agrees, known):
    mine, past = _archive(tmp_path, "mine"), _archive(tmp_path, "past")
    named, told = (
        {"node": node, "uuid": None, "cause": "xid", "slowdown": None}
        for node in ("host-0", "host-1")
    )
    tree = {"culprits": [named], "history": [{**told, "place_agrees": agrees}]}
    (past / "verdict.json").write_text(json.dumps(tree))

    assert known == [culprit.node for culprit in siblings(mine).runs[0].culprits]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at a folder as another user")
def test_a_folder_of_somebody_else_beside_the_archive_is_left_alone(tmp_path):
    mine = _archive(tmp_path, "mine")
    _archive(tmp_path, "private").chmod(0)
    tmp_path.chmod(0o755)
    script = f"""
import os, sys
from lockstep.analyzer.read.verdicts import siblings
from pathlib import Path
if os.getuid() == 0:
    os.seteuid(65534)
sys.exit(len(siblings(Path({str(mine)!r})).runs))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert (0, "") == (done.returncode, done.stderr)


def test_archives_beside_one_are_read_and_itself_is_not(tmp_path):
    mine = _archive(tmp_path, "mine")
    _archive(tmp_path, "other")
    past = siblings(mine)

    assert (["other"], 0, 0) == ([run.run for run in past.runs], past.skipped, past.left_out)
    assert (frozenset({"host-0", "host-1"}), "host-1") == (
        past.runs[0].nodes, past.runs[0].culprits[0].node
    )  # fmt: skip


def test_of_a_finding_the_findings_of_other_runs_are_read(tmp_path):
    for run in ("mine", "other"):
        (tmp_path / run).mkdir()
    mine = _archive(tmp_path / "mine", "20261120T000000Z-rank-1")
    (mine / "finding.json").write_text("{}")
    _archive(tmp_path / "other", "20261119T000000Z-rank-3")

    assert ["20261119T000000Z-rank-3"] == [run.run for run in siblings(mine).runs]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("verdict.json", b"{"),
        ("verdict.json", b"[" * 100_000),
        ("verdict.json", b'{"culprits": [{"node": {"a": 1}}]}'),
        ("verdict.json", b'{"culprits": 5}'),
        ("run.json", b'{"run": "x", "ended": "yesterday"}'),
        ("run.json", b"\xff\xfe"),
        ("ranks.parquet", b"PAR1"),
    ],
)
def test_hostile_archives_are_skipped_and_counted(tmp_path, file, content):
    mine = _archive(tmp_path, "mine")
    (_archive(tmp_path, "bad") / file).write_bytes(content)
    past = siblings(mine)

    assert ((), 1) == (past.runs, past.skipped)


def test_links_are_not_followed_and_folders_that_are_no_archives_do_not_count(tmp_path):
    (tmp_path / "runs").mkdir()
    mine = _archive(tmp_path / "runs", "mine")
    away = _archive(tmp_path, "away")
    (tmp_path / "runs" / "link").symlink_to(away)
    (tmp_path / "runs" / "notes").mkdir()
    inside = _archive(tmp_path / "runs", "inside")
    (inside / "verdict.json").unlink()
    (inside / "verdict.json").symlink_to(away / "verdict.json")
    past = siblings(mine)

    assert ((), 1) == (past.runs, past.skipped)


def test_more_folders_than_the_limit_are_left_out_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("lockstep.analyzer.read.verdicts.MOST_ARCHIVES", 2)
    mine = _archive(tmp_path, "mine")
    for number in range(4):
        os.utime(_archive(tmp_path, f"run-{number}"), (number, number))
    past = siblings(mine)

    assert (["run-3", "run-2"], 2) == ([run.run for run in past.runs], past.left_out)
