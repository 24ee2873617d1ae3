"""`lockstep run` as a user sees it: what is in the archive, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from lockstep.workloads.faults.cpu_quota import why_not

CGROUPS = (Path("/sys/fs/cgroup/cpu/lockstep"), Path("/sys/fs/cgroup/lockstep"))
WHY_NO_QUOTA = why_not()
SHORT = ("--nodes", "2", "--steps", "40", "--seed", "3")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "lockstep", "run", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a short healthy run."""
    archive = tmp_path_factory.mktemp("runs") / "archive"
    done = run("gpt", *SHORT, "--out", str(archive))
    assert done.returncode == 0, done.stderr
    return archive


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
def test_every_step_of_every_rank_is_in_the_archive_once(finished: Path) -> None:
    steps = ds.dataset(finished / "steps.parquet").to_table().to_pandas()
    cells = list(zip(steps["step"], steps["rank"], strict=True))

    assert sorted((step, rank) for step in range(40) for rank in range(2)) == sorted(cells)
    assert steps["loss"].iloc[:4].mean() > 4.0
    assert steps.query("step >= 35")["loss"].mean() < 3.9
    assert set(steps.query("step < 5")["tags"]) == {"warmup"}


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
def test_every_operation_is_in_the_archive_with_both_clocks(finished: Path) -> None:
    ops = ds.dataset(finished / "ops.parquet").to_table().to_pandas()
    reduces = ops[ops["optype"] == "dp-all-reduce"]

    assert (ops["end_ns"] >= ops["start_ns"]).all()
    assert {"data-load", "forward-compute", "backward-compute", "optimizer"} < set(ops["optype"])
    assert set(reduces.groupby("sequence")["rank"].nunique()) == {2}
    # Everybody leaves a blocking collective within a moment of each other: a part of a step.
    spread = reduces.groupby("sequence")["end_ns"].agg(lambda end: end.max() - end.min())
    steps = ds.dataset(finished / "steps.parquet").to_table(["wall_seconds"]).to_pandas()
    assert spread.median() < max(20e6, 0.25e9 * steps["wall_seconds"].median())


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
def test_the_archive_says_what_was_emulated_and_simulated(finished: Path) -> None:
    meta = json.loads((finished / "run.json").read_text())

    assert meta["emulated_devices"] is True
    assert ["gpu telemetry"] == meta["simulated"]
    assert "finished" == meta["outcome"]["ending"]
    assert meta["ended"] > meta["started"]
    for parts in meta["starting"].values():
        (program,), (meeting,), (loading,) = (
            parts[each] for each in ("program", "rendezvous", "load")
        )
        assert program[0] <= program[1] == meeting[0] <= meeting[1] == loading[0]
        assert loading[1] is None
    assert len(meta["starting"]) == meta["layout"]["world"]
    assert not (finished / "starting").exists()
    assert [] == json.loads((finished / "truth.json").read_text())["faults"]


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
def test_telemetry_of_both_nodes_is_recorded(finished: Path) -> None:
    samples = ds.dataset(finished / "samples.parquet").to_table().to_pandas()
    names = set(samples["metric"])

    assert {"node-0", "node-1"} == set(samples["node"])
    assert {"lockstep_train_steps_total", "lockstep_gpu_temperature_celsius"} < names
    assert {"lockstep_host_cpu_seconds_total", "lockstep_rank_info"} < names
    assert (samples.query("metric == 'up'")["value"] == 1).all()


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
def test_the_frozen_ranks_of_a_node_end_the_run_at_the_hang_timeout_as_asked_for(
    tmp_path: Path,
) -> None:
    done = run(
        "gpt", "--nodes", "2", "--ranks-per-node", "2", "--steps", "40", "--fault", "freeze:node=0",
        "--hang-timeout", "3", "--out", str(tmp_path / "archive"), "-o", "json",
    )  # fmt: skip

    assert 0 == done.returncode
    assert ("hang", [0, 1]) == tuple(json.loads(done.stdout)[key] for key in ("ending", "ranks"))


@pytest.mark.sweep(sample=4)
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("gtp",), "unknown workload 'gtp'; one of gpt, resnet, logreg, allreduce; did you mean"),
        (("gpt", "--nodes", "0"), "nodes is 0"),
        (("gpt", "--nodes", "3", "--ranks-per-node", "3"), "9 ranks are too many"),
        (("gpt", "--dp", "3"), "dp 3 x tp 1 x pp 1 = 3 does not match"),
        (("gpt", "--tp", "8"), "dp 1 x tp 8 x pp 1 = 8 does not match"),
        (("gpt", "--model", "lama3-8b"), "did you mean llama3-8b?"),
        (("gpt", "--steps", "3"), "--steps 3 is too few"),
        (("gpt", "--launcher", "slurm"), "unknown launcher 'slurm'"),
        (("gpt", "--fault", "compute:rank=4"), "there is no rank 4; ranks are 0 to 3"),
        (("gpt", "--fault", "heat:rank=1"), "unknown kind 'heat'"),
        (("gpt", "--pace", "off", "--fault", "thermal:rank=1"), "needs emulated devices"),
        (("gpt", "--device-noise", "7"), "--device-noise 7"),
        (("gpt", "--device-seconds", "0"), "--device-seconds 0"),
        (("gpt", "--hang-timeout", "0"), "--hang-timeout 0"),
        (("gpt", "--seed", "-4"), "--seed -4 is negative"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    arguments: tuple[str, ...], named: str, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    done = run(*arguments, "--out", str(archive))

    assert 64 == done.returncode
    assert named in done.stderr
    assert 1 == len(done.stderr.strip().splitlines())
    assert not archive.exists()
    assert "" == done.stdout


def test_an_archive_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    done = run("gpt", "--out", str(tmp_path))

    assert 64 == done.returncode
    assert "is not an empty folder" in done.stderr
    assert [tmp_path / "precious"] == list(tmp_path.iterdir())


def test_a_fault_that_needs_root_is_refused_with_the_reason(tmp_path: Path) -> None:
    # Becoming nobody for real would take the interpreter's own files away from it.
    as_nobody = "import os, sys; os.geteuid = lambda: 65534\n"
    as_nobody += "from lockstep.app import main; sys.exit(main())"
    fault = ("--fault", "cpu-quota:rank=1", "--out", str(tmp_path / "archive"))
    done = subprocess.run(
        [sys.executable, "-c", as_nobody, "run", "gpt", *fault],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip

    assert 64 == done.returncode
    assert "cpu-quota needs root" in done.stderr
    assert 1 == len(done.stderr.strip().splitlines())
    assert not (tmp_path / "archive").exists()


@pytest.mark.root
@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.skipif(WHY_NO_QUOTA != "", reason=WHY_NO_QUOTA)
def test_a_cpu_quota_slows_its_rank_about_as_asked(tmp_path: Path) -> None:
    # It depends on the load of the machine; the measured factor is what counts as truth.
    for attempt in range(3):
        archive = tmp_path / f"archive-{attempt}"
        run("gpt", "--nodes", "2", "--steps", "100", "--fault", "cpu-quota:rank=1,factor=1.8",
            "--out", str(archive))  # fmt: skip
        measured = json.loads((archive / "truth.json").read_text())["faults"][0]["factor_measured"]
        if 1.2 < measured < 3.0:
            break

    assert 1.2 < measured < 3.0
    name = json.loads((archive / "run.json").read_text())["run"]
    assert [] == [str(root) for root in CGROUPS if kept(root, name)]


def kept(root: Path, run: str) -> bool:
    """Whether a run left its cgroup there, or the folder of all of them with nobody's in it."""
    try:
        runs = [each.name for each in root.iterdir() if each.is_dir()]
    except FileNotFoundError:
        return False
    return run in runs or not runs
