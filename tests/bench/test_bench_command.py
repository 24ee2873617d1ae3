"""`lockstep bench` from the shell: exit codes, and one sentence for whatever is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstep.bench import results
from lockstep.bench.baseline import locked, read_baseline, write_baseline
from lockstep.bench.spec import BenchError
from lockstep.runs.claim import claim_folder
from lockstep.terminal.output import CommandError
from lockstep.watch.settings import of_path
from tests.bench.test_judging import BEFORE, result

Lockstep = Callable[..., Any]


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """`table(name, rows...)` writes a table of results."""

    def make(name: str, *rows: dict[str, Any]) -> Path:
        for each in rows:
            results.write(tmp_path / name, each)
        return tmp_path / name

    return make


def test_a_baseline_is_locked_and_later_results_are_judged_by_exit_code(
    lockstep: Lockstep, table: Callable[..., Path], tmp_path: Path
) -> None:
    baseline = tmp_path / "b.json"
    answer = lockstep("bench", "lock", table("good", *BEFORE), "--out", baseline)
    assert 0 == answer.code
    assert "5 results" in answer.out

    slow = table("slow", {**result(9, 1.1), "driver": "560.2"})
    for name, code, said in (
        ("good", 0, "as before"), (slow, 2, "driver 550.1 -> 560.2"),
        (table("one", result(9, slow={1: 1.08})), 2, "rank 1 on node-0"),
        (table("untimed", {**result(9, 1.2), "rank_own_seconds": None}), 1, "unknown"),
        (table("other", {**result(9), "hardware": "H200"}), 65, "other hardware"),
    ):  # fmt: skip
        answer = lockstep("bench", "compare", baseline, tmp_path / name)
        assert (code, True) == (answer.code, said in answer.out + answer.err), answer


def test_of_a_benchmark_with_a_failed_cell_the_good_ones_are_locked_by_name(
    lockstep: Lockstep, table: Callable[..., Path], tmp_path: Path
) -> None:
    out, (first, second, *_) = tmp_path / "b.json", [str(each["cell"]) for each in BEFORE]
    bad = {**BEFORE[0], "cell": "broken", "status": "failed", "reason": "no GPU left"}
    half = table("half", *BEFORE, bad)

    assert 65 == lockstep("bench", "lock", half, "--out", out).code
    answer = lockstep("bench", "lock", half, "--out", out, "--cell", first, "--cell", second)
    assert (0, 2) == (answer.code, len(read_baseline(out).rows)), answer.err
    answer = lockstep("bench", "lock", half, "--out", tmp_path / "c.json", "--cell", "brokn")
    assert 64 == answer.code
    assert f"--cell brokn is none of the results'; their cells are broken, {first}, " in answer.err


def test_what_is_no_good_result_is_not_locked(
    lockstep: Lockstep, table: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "b.json"
    for bad, said in (
        (result(1, status="failed", reason="it broke"), "it broke; leave it out"),
        (result(2, culprits=["rank 2: thermal"]), "rank 2: thermal slows it; leave it out"),
    ):
        name = f"t{bad['cell']}"
        row = {**bad, "status": bad.get("status", "finished")}
        answer = lockstep("bench", "lock", table(name, row), "--out", out)
        assert 65 == answer.code
        assert said in answer.err
    out.write_text("mine")
    assert 64 == lockstep("bench", "lock", table("good", *BEFORE), "--out", out).code
    assert "mine" == out.read_text()


def test_a_damaged_baseline_is_told(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    newer = '{"kind": "lockstep-baseline", "schema_version": 9}'
    for text, said in (("{", "cannot be read"), ("{}", "is no baseline"), (newer, "version 9")):
        path.write_text(text)
        with pytest.raises(BenchError, match=said):
            read_baseline(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"step_seconds": "x"},
        {"step_seconds": -1.0},
        {"step_seconds": None},
        {"rank_own_seconds": 3},
    ],
    ids=str,
)
def test_a_result_of_a_baseline_that_is_none_is_told(
    lockstep: Lockstep, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    path = tmp_path / "b.json"
    write_baseline(path, locked(BEFORE))
    tree = json.loads(path.read_text())
    tree["results"][2] |= wrong
    path.write_text(json.dumps(tree))
    answer = lockstep("bench", "compare", path, path)

    assert 65 == answer.code
    assert "result 3" in answer.err
    assert next(iter(wrong)) in answer.err


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_a_torn_archive_is_told(lockstep: Lockstep, tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    for verdict in (False, True):
        if verdict:
            (tmp_path / "verdict.json").write_text("{}")
        assert 65 == lockstep("bench", "list", tmp_path).code


def test_watch_takes_a_locked_baseline(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    write_baseline(path, locked(BEFORE))
    steps = sorted(each["step_seconds"] for each in BEFORE)
    assert {("gpt", 4): pytest.approx(1 / steps[2])} == of_path(path)

    write_baseline(path, locked([*BEFORE, {**BEFORE[0], "settings": '{"steps": 9}'}]))
    with pytest.raises(CommandError, match="which a live run does not distinguish"):
        of_path(path)


def test_a_dry_run_prints_every_command_and_runs_none(lockstep: Lockstep, tmp_path: Path) -> None:
    spec = tmp_path / "b.toml"
    spec.write_text('[bench]\nname = "n"\n[workloads.gpt]\nsteps = 41\n[matrix]\nnodes = [1, 2]\n')
    answer = lockstep("bench", "run", spec, "--out", tmp_path / "o", "--dry-run", "-o", "jsonl")

    told = [json.loads(line) for line in answer.out.splitlines()]
    assert ["gpt,nodes=1", "gpt,nodes=2"] == [each["cell"] for each in told]
    assert "--steps" in told[0]["steps"][1]["command"]
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [
        ("[bench]\nname = 'n'\n[workloads.gtp]\n", 65, "did you mean gpt?"),
        (
            "[bench]\nname = 'n'\n[workloads.gpt]\n[matrix]\nnodes = [64]\n",
            65,
            "cell gpt cannot run",
        ),
        ("[bench]\nname = 'n'\n[workloads.gpt]\nsteps = 1\n", 65, "--steps 1 is too few"),
        *(
            (f"[bench]\nname = 'n'\n[workloads.gpt]\n{line}\n", 65, f"cell gpt {said}")
            for line, said in (
                ("steps = 'ten'", "cannot run: steps is 'ten'; it must be a whole number"),
                ("device-noise = 'x'", "cannot run: device-noise is 'x'; it must be a number"),
                ("hang-timeout = [1]", "cannot run: hang-timeout is [1]; it must be a number"),
                ("micro-batch = 1.5", "cannot run: micro-batch is 1.5; it must be a whole"),
                (
                    "setps = 10",
                    "has an option 'setps', which `lockstep run` does not have; did you",
                ),
            )
        ),
    ],
)
def test_what_can_never_run_is_refused_before_anything_starts(
    lockstep: Lockstep, tmp_path: Path, spec: str, code: int, said: str
) -> None:
    path = tmp_path / "b.toml"
    path.write_text(spec)
    answer = lockstep("bench", "run", path, "--out", tmp_path / "o")

    assert code == answer.code
    assert said in answer.err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('options = {queue = "gpus"}\n[workloads.gpt]', "--queue is for --launcher kubernetes or"),
        ("[workloads.gpt]\n[matrix]\nimages = ['i']", "--image is for --launcher kubernetes or"),
        ("[workloads.x]\ncommand = ['true']\nsteps = 9", "--steps is for our own workloads, not"),
    ],
)
def test_an_option_that_is_of_no_use_is_refused_before_anything_starts(
    lockstep: Lockstep, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "b.toml").write_text(f"[bench]\nname = 'n'\n{text}\n")
    answer = lockstep("bench", "run", tmp_path / "b.toml", "--out", tmp_path / "o")

    assert (65, True) == (answer.code, said in answer.err), answer.err
    assert not (tmp_path / "o").exists()


def test_a_file_as_out_is_told(lockstep: Lockstep, tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text("[bench]\nname = 'n'\n[workloads.gpt]\n")
    answer = lockstep("bench", "run", path, "--out", path)

    assert 65 == answer.code
    assert "b.toml is no folder of a benchmark (Not a directory: " in answer.err


def test_a_template_knows_the_folder_of_its_file(lockstep: Lockstep, tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text("[bench]\nname = 'n'\n[workloads.x]\ncommand = ['python', '{here}/t.py']\n")
    answer = lockstep("bench", "run", path, "--out", tmp_path / "o", "--dry-run")

    assert f"--exec -- python {tmp_path}/t.py" in answer.out


def test_a_second_bench_on_one_folder_is_refused(lockstep: Lockstep, tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text("[bench]\nname = 'n'\n[workloads.gpt]\nsteps = 41\n")
    with claim_folder(tmp_path / "o"):
        answer = lockstep("bench", "run", path, "--out", tmp_path / "o")

    assert 64 == answer.code
    assert "is being written by process" in answer.err


def test_results_are_listed_exported_and_drawn(
    lockstep: Lockstep, table: Callable[..., Path], tmp_path: Path
) -> None:
    where = table("good", *BEFORE)
    assert 5 == len(lockstep("bench", "list", where).out.splitlines()) - 1
    assert 6 == len(lockstep("bench", "export", where).out.splitlines())
    assert 65 == lockstep("bench", "export", where, "--to", tmp_path / "r.xls").code
    assert 69 == lockstep("bench", "export", where, "--to", tmp_path / "no" / "r.csv").code
    assert 69 == lockstep("bench", "export", where, "--push", "postgresql://127.0.0.1:9/x").code
    for words in (
        ("results",), ("s3://",), ("s3://[x/y",), ("postgresql://127.0.0.1:9/x", "--table", "a-b"),
    ):  # fmt: skip
        answer = lockstep("bench", "export", where, "--push", *words)
        assert (64, False) == (answer.code, "Traceback" in answer.err), answer
    assert 65 == lockstep("bench", "list", tmp_path / "nowhere").code
    assert 64 == lockstep("bench", "plot", where, "--format", "pdf").code
    assert 0 == lockstep("bench", "plot", where, "--out", tmp_path / "p").code


def test_where_nothing_runs_nothing_is_stopped(lockstep: Lockstep, tmp_path: Path) -> None:
    answer = lockstep("bench", "stop", tmp_path)
    assert (64, True) == (answer.code, "no benchmark runs in" in answer.err)
