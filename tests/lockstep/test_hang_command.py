"""`lockstep hang`: a folder of dumps that somebody sends, whatever is in it."""

import json
import os
import pickle

import pytest

from lockstep.collector.contract.flight_recorder import EVIDENCE_FILE
from lockstep.collector.contract.words import ExitCode
from tests.hang_programs import BEGIN, Case, Layout, hang, healthy


def left(case: Case, folder, name="dump_{}", *, plain=False):
    """The case as files, each of the time at which it was written."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, tree in case.trees.items():
        path = folder / name.format(rank)
        path.write_bytes(json.dumps(tree).encode() if plain else pickle.dumps(tree, protocol=2))
        os.utime(path, (case.written[rank],) * 2)
    facts = [{"rank": rank, "kind": kind, "value": value} for rank, kind, value in case.facts]
    if facts:
        (folder / EVIDENCE_FILE).write_text(json.dumps({"schema_version": 1, "facts": facts}))
    return folder


@pytest.mark.parametrize("plain", [False, True])
def test_the_rank_is_named_in_a_sentence_and_by_the_exit_code(lockstep, tmp_path, plain):
    case = hang(3, "host-stopped")
    answer = lockstep("hang", left(case, tmp_path, plain=plain))

    assert ExitCode.CULPRIT == answer.code
    assert answer.out.startswith(f"The run hangs: rank {case.rank} is missing from ")


def test_json_has_the_same_and_keeps_its_keys(lockstep, tmp_path):
    case = hang(4, "data-loader")
    answer = lockstep("hang", left(case, tmp_path), "--json")
    tree = json.loads(answer.out)

    assert (ExitCode.CULPRIT, 1, "data-loader") == (
        answer.code, tree["schema_version"], tree["kind"]
    )  # fmt: skip
    assert [case.rank] == [one["rank"] for one in tree["culprits"]]
    assert tree["culprits"][0]["evidence"][0]["text"].startswith("it stands in the data loader: ")
    assert "exited" in tree["coverage"]["not_told"]


def test_a_run_that_is_well_exits_0(lockstep, tmp_path):
    answer = lockstep("hang", left(healthy(1), tmp_path))

    assert ExitCode.OK == answer.code
    assert "No hang" in answer.out


def test_dumps_of_each_node_in_a_folder_of_its_own_are_one_run(lockstep, tmp_path):
    case = hang(5, "host-stopped", Layout(2, 2, 2))
    for node in range(2):
        ranks = range(4 * node, 4 * node + 4)
        some = {rank: case.trees[rank] for rank in ranks}
        left(Case(case.layout, some, case.written, [], None, None, ""), tmp_path / f"node-{node}")
    tree = json.loads(lockstep("hang", tmp_path, "--json").out)

    assert ([case.rank], 8) == (
        [one["rank"] for one in tree["culprits"]], tree["coverage"]["dumps"]
    )  # fmt: skip


def test_two_jobs_are_judged_apart_the_newest_first(lockstep, tmp_path):
    old, new = hang(6, "host-stopped", Layout(2, 2, 2)), hang(7, "host-stopped", Layout(2, 2, 2))
    left(old, tmp_path, "old_{}")
    for tree in new.trees.values():
        for entry in tree["entries"]:
            entry["time_created_ns"] += 10**13
    left(new, tmp_path, "new_{}")
    tree = json.loads(lockstep("hang", tmp_path, "--json").out)

    assert ("new_", "old_") == (tree["job"], tree["other_jobs"][0]["job"])
    assert [[new.rank], [old.rank]] == [
        [one["rank"] for one in each["culprits"]] for each in (tree, *tree["other_jobs"])
    ]


class _Runs:
    def __reduce__(self):
        return os.system, ("touch ran",)


def test_code_in_a_pickle_is_never_executed_and_the_others_are_read(
    lockstep, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    case = hang(3, "host-stopped", Layout(4, 2, 2, 4))
    folder = left(case, tmp_path / "dumps")
    other = next(rank for rank in case.trees if rank != case.rank)
    (folder / f"dump_{other}").write_bytes(pickle.dumps({"entries": [_Runs()]}, protocol=2))
    tree = json.loads(lockstep("hang", folder, "--json").out)

    assert not (tmp_path / "ran").exists()
    assert "could run code" in tree["rejected"][0]
    assert [other] == tree["coverage"]["without_dump"]
    assert case.rank in [one["rank"] for one in tree["culprits"]]


def test_truncated_and_foreign_files_are_told_and_the_others_are_read(lockstep, tmp_path):
    case = hang(3, "host-stopped", Layout(4, 2, 2, 4))
    folder = left(case, tmp_path)
    cut, foreign = [rank for rank in case.trees if rank != case.rank][:2]
    path = folder / f"dump_{cut}"
    path.write_bytes(path.read_bytes()[:-100])
    (folder / f"dump_{foreign}").write_text('{"no": "dump"}')
    (folder / "notes").write_text("not a rank")
    tree = json.loads(lockstep("hang", folder, "--json").out)

    assert {f"dump_{cut}", f"dump_{foreign}"} == {why.partition(":")[0] for why in tree["rejected"]}
    assert case.rank in [one["rank"] for one in tree["culprits"]]


def test_a_version_that_nobody_knows_is_read_and_said(lockstep, tmp_path):
    case = hang(3, "host-stopped")
    for tree in case.trees.values():
        tree["version"] = "3.1"
    tree = json.loads(lockstep("hang", left(case, tmp_path), "--json").out)

    assert ["dump of version '3.1'"] == tree["coverage"]["notes"]
    assert [case.rank] == [one["rank"] for one in tree["culprits"]]


def test_evidence_that_does_not_hold_together_is_told_and_left_out(lockstep, tmp_path):
    case = hang(3, "host-stopped")
    folder = left(case, tmp_path)
    (folder / EVIDENCE_FILE).write_text('{"facts": [{"rank": 1, "kind": "mood", "value": "bad"}]}')
    tree = json.loads(lockstep("hang", folder, "--json").out)

    assert EVIDENCE_FILE in tree["rejected"][0]
    assert [case.rank] == [one["rank"] for one in tree["culprits"]]


def test_when_dumps_were_written_may_stand_beside_copies_of_them(lockstep, tmp_path):
    case = hang(3, "host-stopped")
    folder = left(case, tmp_path)
    for rank in case.trees:
        os.utime(folder / f"dump_{rank}", (BEGIN + 1e8,) * 2)
    before = json.loads(lockstep("hang", folder, "--json").out)
    moments = {str(rank): moment for rank, moment in case.written.items()}
    (folder / EVIDENCE_FILE).write_text(json.dumps({"written": moments}))
    after = json.loads(lockstep("hang", folder, "--json").out)

    assert before["culprits"][0]["waited_seconds"] is None
    assert after["culprits"][0]["waited_seconds"] > 50


@pytest.mark.parametrize("what", ["absent", "empty", "a file", "no dump", "a link", "too deep"])
def test_what_is_no_folder_of_dumps_is_said_in_one_sentence(lockstep, tmp_path, what):
    folder = tmp_path / "dumps"
    match what:
        case "empty":
            folder.mkdir()
        case "a file":
            folder.write_text("{}")
        case "no dump":
            folder.mkdir()
            (folder / "dump_1").write_bytes(b"nothing of torch's")
        case "a link":
            folder.mkdir()
            (folder / "dump_1").symlink_to("/dev/zero")
        case "too deep":
            (folder / "a/b/c/d").mkdir(parents=True)
    answer = lockstep("hang", folder)

    assert (ExitCode.BAD_INPUT, "") == (answer.code, answer.out)
    assert str(folder) in answer.err
    assert 1 == len(answer.err.strip().splitlines())


def test_thousands_of_ranks(lockstep, tmp_path):
    world = 2000
    ranks = str(list(range(world)))
    entry = next(iter(hang(3, "host-stopped").trees.values()))["entries"][0]
    open_one = entry | {
        "state": "scheduled", "retired": False, "collective_seq_id": 9, "pg_id": 0, "is_p2p": False,
        "process_group": ["0", "default_pg"], "profiling_name": "nccl:all_reduce",
        "time_discovered_completed_ns": None,
    }  # fmt: skip
    for rank in range(world):
        tree = {
            "version": "2.10",
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}},
            "pg_status": {"0": {"last_enqueued_collective": 8, "last_completed_collective": 8}},
            "entries": [] if rank == 1234 else [open_one],
        }
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(tree))
    answer = lockstep("hang", tmp_path)

    assert ExitCode.CULPRIT == answer.code
    assert "rank 1234 is missing from all_reduce number 9" in answer.out


def test_evidence_is_about_the_dumps_of_its_own_folder(lockstep, tmp_path):
    """The older job's loader is no word on the newer, and neither is a time of its rank."""
    old, new = hang(6, "data-loader", Layout(2, 2, 2)), hang(7, "host-stopped", Layout(2, 2, 2))
    left(old, tmp_path / "old")
    for tree in new.trees.values():
        for entry in tree["entries"]:
            entry["time_created_ns"] += 10**13
    left(new, tmp_path / "new")
    (tmp_path / EVIDENCE_FILE).write_text('{"facts": []}')
    tree = json.loads(lockstep("hang", tmp_path, "--json").out)

    assert ("host-stopped", "data-loader") == (tree["kind"], tree["other_jobs"][0]["kind"])
    assert [] == tree["culprits"][0]["evidence"]
    assert f"{EVIDENCE_FILE} lies beside no dump" in tree["rejected"][0]


def test_three_folders_deep_is_read_and_four_is_told(lockstep, tmp_path):
    left(hang(3, "host-stopped"), tmp_path / "a/b/c")
    (tmp_path / "a/b/c/d").mkdir()
    tree = json.loads(lockstep("hang", tmp_path, "--json").out)

    assert "hang" == tree["status"]
    assert "a/b/c/d is more than 3 folders deep" in tree["rejected"][0]


def test_a_folder_that_cannot_be_listed_or_is_too_large_is_told(lockstep, tmp_path, monkeypatch):
    left(hang(3, "host-stopped", Layout(2, 2, 2)), tmp_path / "dumps")
    (tmp_path / "locked").mkdir()
    for number in range(9):
        (tmp_path / f"many/{number}x").mkdir(parents=True)
    listed = os.scandir

    def scandir(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr("lockstep.runs.hang_dumps.MAX_FILES", 8)
    tree = json.loads(lockstep("hang", tmp_path, "--json").out)

    assert "hang" == tree["status"]
    assert "locked cannot be listed: Permission denied" in tree["rejected"]
    assert "many holds over 8 files; the rest is not looked at" in tree["rejected"]
