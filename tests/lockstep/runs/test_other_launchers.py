"""`run --job`: the job, what the archive then says, and what is refused with nothing left."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lockstep.runs import archive
from lockstep.workloads.data import converted
from lockstep.workloads.launch.joining import job_file
from lockstep.workloads.spec import Layout, RunSpec, Training

Lockstep = Callable[..., Any]
SMALL = ("--nodes", "2", "--steps", "40", "--device", "cpu")
SPEC = RunSpec("run", "gpt", Layout(2, 1, 2), 12, 0, Training(vocabulary=32, sequence=16))


def told(path: Path) -> Any:
    return json.loads(path.read_text())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_archive_of_a_job_says_all_that_is_known_before_it_starts(
    lockstep: Lockstep, tmp_path: Path
) -> None:
    out, path = tmp_path / "runs" / "one", tmp_path / "job.json"
    fault = "thermal:rank=1,factor=1.5"
    answer = lockstep("run", "gpt", *SMALL, "--fault", fault, "--out", out, "--job", path)

    assert 0 == answer.code, answer.err
    run, truth = told(out / "run.json"), told(out / "truth.json")
    assert job_file.read(str(path)).spec.run == run["run"]
    assert (None, None, "another launcher") == (run["ended"], run["outcome"], run["started_by"])
    [entry] = truth["faults"]
    assert (1, 1.5, None) == (entry["rank"], entry["factor_intended"], entry["factor_measured"])
    ranks = pq.read_table(out / "ranks.parquet")
    assert [0, 1] == ranks["rank"].to_pylist()


def test_the_note_says_who_records_and_what_the_archive_lacks(
    lockstep: Lockstep, tmp_path: Path
) -> None:
    out = tmp_path / "one"
    answer = lockstep("run", "gpt", *SMALL, "--out", out, "--job", tmp_path / "job.json")

    assert "torchrun --nnodes 2 --nproc-per-node 1 -m lockstep.workloads" in answer.err
    assert "`lockstep collect`" in answer.err
    assert "Without samples and steps" in answer.err
    assert 3 == lockstep("analyze", out).code


@pytest.mark.parametrize(
    "words",
    [
        ("--network", "namespaces"),
        pytest.param(
            ("--fault", "link-bandwidth:node=0,peer=1,rate=8mbit"),
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="takes root"),
        ),
    ],
)
def test_a_network_of_ours_is_refused(
    lockstep: Lockstep, tmp_path: Path, words: tuple[str, ...]
) -> None:
    place = ("--out", tmp_path / "out", "--job", tmp_path / "job.json")
    answer = lockstep("run", "gpt", *SMALL, *words, *place)

    assert 64 == answer.code, answer.err
    assert "leave --job out" in answer.err
    assert [] == names(tmp_path)


def test_a_job_that_cannot_be_written_leaves_nothing(lockstep: Lockstep, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "one"
    answer = lockstep("run", "gpt", *SMALL, "--out", out, "--job", tmp_path / "none" / "j.json")

    assert 69 == answer.code
    assert "lockstep: cannot write " in answer.err
    assert answer.err.endswith("none/j.json: No such file or directory\n")
    assert [] == names(tmp_path)


def test_an_archive_that_cannot_be_made_leaves_no_job(lockstep: Lockstep, tmp_path: Path) -> None:
    job = tmp_path / "job.json"
    answer = lockstep("run", "gpt", *SMALL, "--out", "/proc/none", "--job", job)

    assert (69, "lockstep: cannot write /proc/none: No such file or directory\n") == (
        answer.code,
        answer.err,
    )
    assert [] == names(tmp_path)


def test_an_archive_in_use_is_left_as_it_is(lockstep: Lockstep, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "run.json").write_text("precious")
    answer = lockstep("run", "gpt", *SMALL, "--out", out, "--job", tmp_path / "job.json")

    assert 64 == answer.code
    assert "is not an empty folder" in answer.err
    assert "precious" == (out / "run.json").read_text()
    assert ["out"] == names(tmp_path)


def test_a_job_inside_its_own_archive_is_fine(lockstep: Lockstep, tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer = lockstep("run", "gpt", *SMALL, "--out", out, "--job", out / "job.json")

    assert 0 == answer.code, answer.err
    assert ["job.json", "ranks.parquet", "run.json", "truth.json"] == names(out)


@pytest.mark.parametrize("hosts", [(), ("a", "b")])
def test_hosts_share_no_clock_and_a_job_without_names_does_not_know(
    tmp_path: Path, hosts: tuple[str, ...]
) -> None:
    spec = replace(SPEC, launcher="mpirun", hosts=hosts)
    for name, write in (("run", archive.write_start), ("job", archive.write_job)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, spec, archive.now())
    run, job = (told(tmp_path / name / "run.json") for name in ("run", "job"))

    assert (not hosts) == run["clock"]["shared_monotonic_clock"]
    assert (False if hosts else None) == job["clock"]["shared_monotonic_clock"]
    assert (False if hosts else None) == job["emulated_nodes"]


def wrong_rows(folder: Path) -> Path:
    """A file whose last row is wrong, in the second block that is read, and one to validate on."""
    row = " ".join(f"{index}:0.123456789" for index in range(1, 101))
    count = (5 << 20) // len(row)
    rows = "".join(f"{'+-'[number % 2]}1 {row}\n" for number in range(count))
    train = folder / "rows"
    train.write_text(rows + "+1 3:x\n")
    (folder / "rows.t").write_text(f"+1 {row}\n-1 {row}\n")
    return train


def test_wrong_rows_deep_in_a_file_end_the_run_before_there_is_an_archive(
    lockstep: Lockstep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, out = wrong_rows(tmp_path), tmp_path / "runs" / "one"
    monkeypatch.setenv("LOCKSTEP_CACHE_DIR", str(tmp_path / "cache"))
    converted.look_at(train, 100)  # what is looked at first shows nothing
    answer = lockstep(
        "run", "logreg", "--model", "linear-100", "--data", train, *SMALL, "--out", out
    )

    assert 65 == answer.code
    assert f"preparing data: {train}\n" in answer.err
    assert "value 'x' of index 3 is not a finite decimal number\n" in answer.err
    assert "bug" not in answer.err
    assert ["cache", "rows", "rows.t"] == names(tmp_path)


def test_one_rank_and_one_collector_are_called_so() -> None:
    from lockstep.runs.observe import counted

    assert ("1 rank", "2 ranks", "1 collector") == (
        counted(1, "rank"), counted(2, "rank"), counted(1, "collector")
    )  # fmt: skip
