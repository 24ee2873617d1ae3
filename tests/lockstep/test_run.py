"""`lockstep run` as a user and a hostile world see it: real processes, real signals."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from workloads.faults.cgroup import why_not

SHARED_MEMORY = Path("/dev/shm/lockstep")
CGROUPS = (Path("/sys/fs/cgroup/cpu/lockstep"), Path("/sys/fs/cgroup/lockstep"))
WHY_NO_QUOTA = why_not()
SHORT = ("--nodes", "2", "--steps", "40", "--seed", "3")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "lockstep", "run", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=240)


def children_of(pid: int) -> set[int]:
    """Every process below `pid`, at any depth."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    found, frontier = set(), {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier} - found
        found |= frontier
    return found


def left_behind(pids: set[int], run_name: str) -> list[str]:
    """What is still there of a run: processes, rings, cgroups."""
    alive = [f"process {pid}" for pid in pids if Path(f"/proc/{pid}").exists()]
    rings = [str(SHARED_MEMORY / run_name)] if (SHARED_MEMORY / run_name).exists() else []
    groups = [str(root / run_name) for root in CGROUPS if (root / run_name).exists()]
    return alive + rings + groups


def wait_until_nothing_is_left(pids: set[int], run_name: str) -> list[str]:
    deadline = time.monotonic() + 60
    while (left := left_behind(pids, run_name)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A run that trains right now, in its own session, with a quota on one rank where possible."""
    archive = tmp_path / "archive"
    # With a quota where there may be one: its cgroup must go as well.
    fault = () if WHY_NO_QUOTA else ("--fault", "cpu-quota:rank=1,from=12")
    process = subprocess.Popen(
        command("gpt", "--nodes", "2", "--steps", "4000", *fault, "--out", str(archive)),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not any((archive / "steps.parquet").glob("part-*.parquet")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield process, archive
    if process.poll() is None:
        process.kill()
        process.wait()


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
def test_an_injected_crash_is_a_successful_run_that_names_its_rank(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    done = run("gpt", *SHORT, "--fault", "crash:rank=1", "--out", str(archive), "-o", "json")
    answer = json.loads(done.stdout)

    assert 0 == done.returncode
    assert ("crash", [1], "killed by SIGKILL") == tuple(
        answer[key] for key in ("ending", "ranks", "reason")
    )
    *_, verdict, following = done.stderr.splitlines()
    assert verdict.startswith("verdict Rank 1 ")
    assert f"next    lockstep analyze {archive}" == following


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_ended_launcher_leaves_nothing_but_a_readable_archive(
    started: tuple[subprocess.Popen[bytes], Path], number: signal.Signals
) -> None:
    process, archive = started
    run_name = json.loads((archive / "run.json").read_text())["run"]
    pids = children_of(process.pid)
    assert len(pids) >= 5  # two ranks, two collectors, the janitor
    process.send_signal(number)
    code = process.wait(timeout=240)

    assert [] == wait_until_nothing_is_left(pids, run_name)
    assert (-signal.SIGKILL if number == signal.SIGKILL else 130) == code
    for table in ("ranks.parquet", "steps.parquet", "ops.parquet", "samples.parquet"):
        assert ds.dataset(archive / table).count_rows() > 0


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
def test_a_rank_that_fails_by_itself_is_named_and_is_a_failure(
    started: tuple[subprocess.Popen[bytes], Path],
) -> None:
    process, archive = started
    run_name = json.loads((archive / "run.json").read_text())["run"]
    pids = children_of(process.pid)
    ranks = [pid for pid in pids if _maps_ring(pid, "rank-1.ring")]
    os.kill(ranks[0], signal.SIGKILL)
    code = process.wait(timeout=240)
    outcome = json.loads((archive / "run.json").read_text())["outcome"]

    assert 70 == code
    exits = outcome.pop("exits")
    assert {"ending": "crash", "ranks": [1], "reason": "killed by SIGKILL"} == outcome
    assert (1, -9) == (exits[0]["rank"], exits[0]["code"])
    assert [] == wait_until_nothing_is_left(pids, run_name)


def _maps_ring(pid: int, name: str) -> bool:
    try:
        return name in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


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


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
def test_a_rank_that_raises_says_why_in_its_log(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    broken = textwrap.dedent("""
        import sys
        from workloads import train
        def fail(job):
            raise RuntimeError("the weights are missing")
        train.run_rank = fail
        from lockstep.cli import main
        sys.exit(main())
    """)
    done = subprocess.run(
        [sys.executable, "-c", broken, "run", "gpt", *SHORT, "--out", str(archive)],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip

    assert 70 == done.returncode
    assert "the weights are missing" in done.stderr
    assert "RuntimeError" in (archive / "logs" / "rank-0.log").read_text()


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
    as_nobody += "from lockstep.cli import main; sys.exit(main())"
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
    assert [] == [str(root) for root in CGROUPS if root.exists() and any(root.iterdir())]


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
def test_an_archive_that_cannot_be_written_is_named_and_nothing_stays(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    process = subprocess.Popen(
        command("gpt", *SHORT, "--out", str(archive)),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (archive / "steps.parquet").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    run_name = json.loads((archive / "run.json").read_text())["run"]
    # Root may write anywhere, so take the folder away instead of the right to write.
    archive.rename(tmp_path / "moved")
    (tmp_path / "archive").write_text("in the way")
    _, errors = process.communicate(timeout=240)

    assert 70 == process.returncode
    assert str(archive) in errors
    assert "bug" not in errors
    assert [] == wait_until_nothing_is_left(set(), run_name)
