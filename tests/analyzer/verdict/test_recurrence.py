"""How often a culprit was one before: counted out of its runs, beside its peers, never mixed."""

import dataclasses
import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.read.verdicts import Past, PastCulprit, PastRun, siblings
from lockstep.analyzer.shapes.run import Culprit, Verdict
from lockstep.analyzer.verdict.recurrence import recurrence

NOW = 1_760_000_000.0
DAY = 86400.0
NODES = frozenset(f"host-{i}" for i in range(4))


def _culprit(node="host-1", uuid="GPU-1"):
    fields = dict.fromkeys(field.name for field in dataclasses.fields(Culprit))
    told = {"scope": "rank", "rank": 1, "node": node, "gpu": 3, "uuid": uuid, "cause": "thermal",
            "confidence": 0.9, "tier": "page", "evidence": ()}  # fmt: skip
    return Culprit(**{**fields, **told})


def _verdict(*culprits):
    return Verdict("now", "degraded", "", 1.3, None, 0.1, 1.0, culprits=culprits)


def _run(number, culprits=(), *, emulated=False, nodes=NODES, days=1.0):
    uuids = frozenset(node.replace("host", "GPU") for node in nodes)
    return PastRun(f"run-{number}", NOW - days * DAY, emulated, nodes, uuids, tuple(culprits))


HOT = PastCulprit("host-1", "GPU-1", "thermal", False)


def _told(runs, verdict=None, *, emulated=False):
    verdict = _verdict(_culprit()) if verdict is None else verdict
    return recurrence(verdict, Past(tuple(runs)), ended=NOW, emulated=emulated)


def test_a_gpu_and_its_node_are_counted_out_of_the_runs_they_took_part_in():
    runs = [_run(i, [HOT] * (i < 3)) for i in range(10)]
    runs += [_run(20, nodes=frozenset({"host-8", "host-9"}))]
    gpu, node = _told(runs)

    assert ("gpu", "GPU-1", 3, 10) == (gpu["by"], gpu["uuid"], gpu["culprit_runs"], gpu["runs"])
    assert ("node", "host-1", 3, 10) == (
        node["by"], node["node"], node["culprit_runs"], node["runs"]
    )  # fmt: skip
    # Wilson (1927) for 3 of 10.
    assert (0.108, 0.603) == pytest.approx(node["interval"], abs=1e-3)
    assert "in 3 of the 10 runs" in node["text"]


def test_one_that_is_named_far_more_often_than_its_peers_is_told_to_be_examined():
    often = _told([_run(i, [HOT] * (i < 5)) for i in range(10)])[0]["text"]
    once = _told([_run(i, [HOT] * (i < 1)) for i in range(2)])[0]["text"]

    assert ("have it examined" in often, "have it examined" in once) == (True, False)


def test_runs_older_than_a_month_or_later_than_this_one_do_not_count():
    told = _told([_run(0, [HOT], days=31.0), _run(1, [HOT], days=-1.0), _run(2, days=29.0)])

    assert [(0, 1), (0, 1)] == [(one["culprit_runs"], one["runs"]) for one in told]


@pytest.mark.parametrize("emulated", [True, False])
def test_emulated_and_real_nodes_of_one_name_are_never_counted_together(emulated):
    told = _told([_run(0, [HOT], emulated=not emulated), _run(1, emulated=emulated)],
                 emulated=emulated)  # fmt: skip

    assert {0} == {one["culprit_runs"] for one in told}
    assert {emulated} == {"it may be another one" in one["text"] for one in told}


def test_the_uuid_of_a_simulated_gpu_is_no_identity():
    told = _told([_run(0, [HOT])], _verdict(_culprit(uuid="SIM-1")))

    assert ["node"] == [one["by"] for one in told]


def test_what_metas_lemon_features_have_in_verdicts_is_told():
    stopped = PastCulprit("host-1", "GPU-1", "xid", True)
    runs = [_run(0, [stopped]), _run(1, [stopped], nodes=frozenset({"host-1"})), _run(2)]
    told = _told(runs)[1]

    assert {"xid_cnt": 2, "multi_node_node_fails": 1, "single_node_node_fails": 1,
            "single_node_node_failure_rate": 1.0} == told["features"]  # fmt: skip


def test_without_past_runs_nothing_is_told():
    assert () == _told([])


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(0, 3))
def test_the_share_lies_in_its_interval_and_no_sentence_has_nan(named, peer):
    other = PastCulprit(f"host-{peer}", f"GPU-{peer}", "data", False)
    told = _told([_run(i, [HOT, other] if each else [other]) for i, each in enumerate(named)])

    for one in told:
        low, high = one["interval"]
        assert 0 <= low <= one["share"] <= high <= 1
        assert "nan" not in one["text"]


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
