"""Runs under a real Slurm: who is on which node, and what becomes of jobs that do not end well."""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.bench import results
from lockstep.collector.contract.words import ExitCode
from lockstep.runs.leftovers import SHARED_MEMORY
from lockstep.workloads.launch.joining.reachable import free_port
from tests.benchmarks.prometheus_server import prometheus
from tests.cluster.slurm.nodes import NODES, Slurm, ended, missing, slurm, until

pytestmark = [pytest.mark.foreign, pytest.mark.root, pytest.mark.slow, pytest.mark.distributed]
if reason := missing():
    pytest.skip(reason, allow_module_level=True)

PYTHON = sys.executable
TRAIN = Path(__file__).parents[3] / "examples" / "ddp.py"
SRUN = ("srun", "--nodes=2", "--ntasks-per-node=1", "--export=ALL", "--kill-on-bad-exit=1")
RINGS = "/dev/shm/lockstep"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    # Short: the path of a socket has 107 characters.
    folder = tmp_path_factory.mktemp("slurm")
    with slurm(folder) as made:
        yield made


@pytest.fixture
def collectors(cluster: Slurm) -> Iterator[dict[str, str]]:
    """A collector a node, as its service runs there: node -> address."""
    started: list[subprocess.Popen[str]] = []
    addresses: dict[str, str] = {}
    for name in NODES:
        addresses[name] = f"127.0.0.1:{free_port()}"
        started.append(
            cluster.inside(
                name,
                "env",
                f"LOCKSTEP_DIR={RINGS}",
                PYTHON,
                "-m",
                "lockstep",
                "collect",
                f"--listen={addresses[name]}",
            )
        )
    try:
        for address in addresses.values():
            until(lambda one=address: "lockstep_node_info" in page(one))
        yield addresses
    finally:
        for each in started:
            ended(each)


def page(address: str) -> str:
    """What a collector shows; nothing where none answers."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{address}/metrics") as told:
        return str(told.read().decode())
    return ""


def ranks(address: str, run: str) -> dict[str, str]:
    """Rank -> node, of a run on a page."""
    lines = [line for line in page(address).splitlines() if line.startswith("lockstep_rank_info{")]
    return {
        re.search(r'rank="(\d+)"', line)[1]: re.search(r'node="([^"]*)"', line)[1]
        for line in lines
        if f'run="{run}"' in line
    }


def steps(address: str) -> float:
    found = re.findall(r"^lockstep_train_steps_total\{.*\} (\S+)$", page(address), re.MULTILINE)
    return max(map(float, found), default=0.0)


def job_file(folder: Path, *words: str) -> tuple[Path, str]:
    """What `lockstep run --job` writes, and the run's id."""
    path = folder / "job.json"
    subprocess.run(
        [PYTHON, "-m", "lockstep", "run", "gpt", "--nodes=2", "--ranks-per-node=1",
         f"--job={path}", f"--out={folder / 'out'}", *words],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return path, json.loads(path.read_text())["spec"]["run"]


@contextlib.contextmanager
def begun(cluster: Slurm, *command: str) -> Iterator[subprocess.Popen[str]]:
    """A command of Slurm's, until the block ends; nothing of it stays on the nodes."""
    with subprocess.Popen(
        command, env=cluster.environment | {"LOCKSTEP_DIR": RINGS}, text=True, cwd=cluster.folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as job:  # fmt: skip
        try:
            yield job
        finally:
            cluster.call("scancel", "--user=root")
            job.kill()
            job.wait()
            for name in NODES:
                with contextlib.suppress(OSError, TimeoutError, KeyError, IndexError):
                    shutil.rmtree(cluster.shm(name) / "lockstep", ignore_errors=True)


def test_srun_starts_a_run_whose_ranks_are_on_the_nodes_that_slurm_names(
    cluster: Slurm, collectors: dict[str, str], tmp_path: Path
):
    job, run = job_file(tmp_path, "--steps=120")
    with begun(cluster, *SRUN, PYTHON, "-m", "lockstep.workloads", str(job)) as srun:
        until(lambda: all(ranks(one, run) for one in collectors.values()), 120)
        told = {name: ranks(address, run) for name, address in collectors.items()}
        _, said = srun.communicate(timeout=180)

    assert {"gpu-7": {"0": "gpu-7"}, "gpu-8": {"1": "gpu-8"}} == told
    assert 0 == srun.returncode, said
    assert [] == [name for name in NODES if list(cluster.shm(name).glob("lockstep/*"))]


SBATCH = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --output={out}
export LOCKSTEP_DIR={rings} OMP_NUM_THREADS=1
mkdir -p $LOCKSTEP_DIR
srun --export=ALL {torchrun} --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d \\
  --rdzv-id slurm-$SLURM_JOB_ID --rdzv-endpoint $(hostname):{port} {program} --steps {steps}
"""


def submitted(cluster: Slurm, folder: Path, **more: object) -> str:
    """The id of a job with a user's own program under torchrun, with the recipe's lines."""
    script = folder / "job.sh"
    script.write_text(
        SBATCH.format(
            out=folder / "said",
            rings=RINGS,
            port=free_port(),
            program=TRAIN,
            torchrun=f"{PYTHON} -m torch.distributed.run",
            **{"steps": 4000} | more,
        )
    )
    said = cluster.call("sbatch", "--parsable", str(script))
    assert 0 == said.returncode, said.stderr
    return said.stdout.strip()


def test_a_job_of_somebodys_own_program_is_a_run_of_the_jobs_name_and_ends_when_cancelled(
    cluster: Slurm, collectors: dict[str, str], tmp_path: Path
):
    job = submitted(cluster, tmp_path)
    run = f"slurm-{job}"
    try:
        until(lambda: all(ranks(one, run) for one in collectors.values()), 150)
        until(lambda: all(steps(one) > 2 for one in collectors.values()), 60)
        told = {name: set(ranks(address, run).values()) for name, address in collectors.items()}
    except TimeoutError:
        pytest.fail((tmp_path / "said").read_text())
    finally:
        cluster.call("scancel", job)

    # torchrun numbers ranks as agents come, so which rank is where is not Slurm's.
    assert {name: {name} for name in NODES} == told
    until(lambda: all(cluster.state(name) == "idle" for name in NODES))
    until(lambda: all("lockstep_rank_up" in page(one) for one in collectors.values()))
    # Cancelled ranks are gone, and are shown as gone: no step, no heartbeat.
    until(lambda: all(gone(one, run) for one in collectors.values()))
    for name in NODES:
        shutil.rmtree(cluster.shm(name) / "lockstep", ignore_errors=True)


def gone(address: str, run: str) -> bool:
    """Whether the page shows ranks of the run, and all of them as gone."""
    found = [line for line in page(address).splitlines()
             if line.startswith("lockstep_rank_up{") and f'run="{run}"' in line]  # fmt: skip
    return bool(found) and all(line.endswith(" 0") for line in found)


@pytest.mark.sweep(sample=0)  # a minute: at night
def test_a_job_that_runs_out_of_time_is_ended_on_all_nodes(
    cluster: Slurm, collectors: dict[str, str], tmp_path: Path
):
    job, run = job_file(tmp_path, "--steps=100000")
    with begun(cluster, *SRUN, PYTHON, "-m", "lockstep.workloads", str(job)) as srun:
        until(lambda: all(ranks(one, run) for one in collectors.values()), 120)
        # As its time limit does: the job gets a SIGTERM, and a SIGKILL after KillWait.
        said = cluster.call("squeue", "-h", "-o", "%i")
        cluster.call("scontrol", "update", f"JobId={said.stdout.strip()}", "TimeLimit=0:01")
        srun.communicate(timeout=150)

        assert srun.returncode != 0
        until(lambda: all(cluster.state(name) == "idle" for name in NODES))
        assert [] == [name for name in NODES if alive(cluster, name)]


def alive(cluster: Slurm, name: str) -> list[str]:
    """Ranks that run on a node."""
    with cluster.inside(name, "pgrep", "-f", "workloads.*job.json") as found:
        return str(found.communicate()[0]).split()


@pytest.mark.sweep(sample=0)  # a minute: at night
def test_a_node_that_loses_its_power_in_the_middle_of_a_run_is_named(
    cluster: Slurm, collectors: dict[str, str], tmp_path: Path
):
    job, run = job_file(tmp_path, "--steps=100000")
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "scrape_configs": [{"job_name": "lockstep-collector", "static_configs": [
            {"targets": [address], "labels": {"node": name, "instance": name}}
            for name, address in collectors.items()
        ]}],
    }  # fmt: skip
    with (
        prometheus(tmp_path, config) as (url, _),
        begun(cluster, *SRUN, PYTHON, "-m", "lockstep.workloads", str(job)),
    ):
        until(lambda: all(steps(one) > 20 for one in collectors.values()), 150)
        time.sleep(15)
        try:
            cluster.node_down("gpu-8")
            time.sleep(30)
            found = subprocess.run(
                [PYTHON, "-m", "lockstep", "analyze", "--prometheus", url, "--run", run, "-ojson"],
                capture_output=True, text=True, timeout=180, check=False,
            )  # fmt: skip
        finally:
            cluster.node_up("gpu-8")
            until(lambda: cluster.state("gpu-8") in ("idle", "mixed", "allocated"), 90)
    verdict = json.loads(found.stdout)

    assert ExitCode.OK != found.returncode, found.stderr
    assert "gpu-8" in verdict["sentence"], verdict["sentence"]
    assert "gpu-7" not in {each["node"] for each in verdict["culprits"]}


BENCH = """
[bench]
name = "n"
report = []
timeout = SECONDS
[workloads.gpt]
[matrix]
nodes = [2]
[[steps]]
name = "configure"
command = ["PYTHON", "-m", "lockstep", "run", "gpt", "--nodes={nodes}", "--ranks-per-node=1",
           "--steps=100000", "--job={folder}/job.json", "--out={archive}"]
[[steps]]
name = "launch"
command = ["srun", "--nodes={nodes}", "--ntasks-per-node=1", "--export=ALL", "--kill-on-bad-exit=1",
           "PYTHON", "-m", "lockstep.workloads", "{folder}/job.json"]
[[steps]]
name = "analyze"
command = ["true"]
"""


@pytest.mark.sweep(sample=0)  # a minute: at night
def test_a_benchmark_whose_cell_takes_too_long_or_is_stopped_leaves_no_job(
    cluster: Slurm, tmp_path: Path
):
    """The recipe of docs/ml/bench.md."""
    words = (PYTHON, "-m", "lockstep", "bench", "run", str(tmp_path / "b.toml"),
             "--out", str(tmp_path / "o"))  # fmt: skip

    def file(seconds: int) -> None:
        text = BENCH.replace("PYTHON", PYTHON).replace("SECONDS", str(seconds))
        (tmp_path / "b.toml").write_text(text)

    def nothing_is_left() -> None:
        until(lambda: all(cluster.state(name) == "idle" for name in NODES), 60)
        assert "" == cluster.call("squeue", "-h").stdout.strip()
        assert [] == [name for name in NODES if alive(cluster, name)]

    file(25)
    with begun(cluster, *words) as bench:
        _, said = bench.communicate(timeout=400)
    assert 70 == bench.returncode, said
    assert "launch had not ended after 25 s, and was ended" in said
    nothing_is_left()

    file(900)
    shutil.rmtree(tmp_path / "o")
    with begun(cluster, *words) as bench:
        until(lambda: all(alive(cluster, name) for name in NODES), 300)
        stopped = cluster.call(PYTHON, "-m", "lockstep", "bench", "stop", str(tmp_path / "o"))
        bench.communicate(timeout=120)
    assert (0, 130) == (stopped.returncode, bench.returncode), stopped.stderr
    nothing_is_left()
    assert ["stopped"] == [row["status"] for row in results.read(tmp_path / "o/results.parquet")]


def test_the_test_leaves_the_machines_own_rings_alone():
    assert not list(SHARED_MEMORY.glob("slurm-*"))
