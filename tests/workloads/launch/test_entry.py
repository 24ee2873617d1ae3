"""`python -m lockstep.workloads JOB` started by torchrun, srun and a plain shell, really."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.workloads.launch.joining.job_file import Job
from lockstep.workloads.launch.joining.reachable import free_port
from lockstep.workloads.spec import Layout, RunSpec, Training

TRAINING = Training(vocabulary=32, sequence=16)
STARTERS = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE",
    "SLURM_PROCID", "SLURM_NTASKS",
)  # fmt: skip


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Ours, but nobody's rank."""
    ours = {name: value for name, value in os.environ.items() if name not in STARTERS}
    return ours | {"LOCKSTEP_DIR": str(tmp_path / "rings"), "OMP_NUM_THREADS": "1"}


def job(folder: Path, nodes: int = 2) -> str:
    spec = RunSpec("run", "gpt", Layout(nodes, 1, nodes), 12, 0, TRAINING, pace=False)
    path = folder / "job.json"
    Job(spec, folder / "out").write(path)
    return str(path)


def entry(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lockstep.workloads", *words], env=environment, capture_output=True,
        text=True, timeout=240, check=False,
    )  # fmt: skip


@pytest.mark.distributed
@pytest.mark.slow
def test_torchrun_starts_the_ranks(environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
            "--master-addr", "127.0.0.1", "--master-port", str(free_port()),
            "-m", "lockstep.workloads", job(tmp_path),
        ],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert 0 == done.returncode, done.stderr
    assert 1 == (done.stdout + done.stderr).count("iteration       10/      12")
    # The last rank of the host took the rings with it.
    assert [] == list((tmp_path / "rings").iterdir())


@pytest.mark.distributed
@pytest.mark.slow
def test_srun_starts_the_ranks(environment: dict[str, str], tmp_path: Path) -> None:
    """Two processes with the environment that srun gives; there is no Slurm here."""
    slurm = {
        "SLURM_NTASKS": "2", "SLURM_NNODES": "1", "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NODELIST": "localhost",
    }  # fmt: skip
    path = job(tmp_path)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "lockstep.workloads", path], stderr=subprocess.PIPE, text=True,
            env=environment | slurm | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
        )
        for rank in range(2)
    ]  # fmt: skip
    errors = [rank.communicate(timeout=300)[1] for rank in ranks]

    assert [0, 0] == [rank.returncode for rank in ranks], errors


@pytest.mark.slow
def test_one_rank_needs_nobody(environment: dict[str, str], tmp_path: Path) -> None:
    done = entry(environment, job(tmp_path, nodes=1))

    assert 0 == done.returncode, done.stderr


@pytest.mark.parametrize(
    ("variables", "code", "sentence"),
    [
        (
            {},
            69,
            (
                "lockstep: rank 0: the run has 2 ranks (2 nodes x 1 ranks) and 1 were started;"
                " start 2\n"
            ),
        ),
        ({"RANK": "0"}, 69, "lockstep: RANK is set and WORLD_SIZE is not; torchrun"),
    ],
)
def test_ranks_that_cannot_be_are_a_sentence(
    environment: dict[str, str], tmp_path: Path, variables: dict[str, str], code: int,
    sentence: str,
) -> None:  # fmt: skip
    done = entry(environment | variables, job(tmp_path))

    assert code == done.returncode
    assert done.stderr.startswith(sentence)
    assert "Traceback" not in done.stderr


def test_wrong_data_are_a_sentence(environment: dict[str, str], tmp_path: Path) -> None:
    """Of a job that was planned elsewhere: nobody has looked at the data of this host."""
    rows = tmp_path / "rows"
    rows.write_text("+1 1:1\n-1 2:x\n")
    (tmp_path / "rows.t").write_text("+1 1:1\n")
    training = Training(model="linear-2", data=str(rows))
    spec = RunSpec("run", "logreg", Layout(1, 1, 1), 12, 0, training, pace=False)
    path = tmp_path / "job.json"
    Job(spec, tmp_path / "out").write(path)
    done = entry(environment | {"LOCKSTEP_CACHE_DIR": str(tmp_path / "cache")}, str(path))

    assert 65 == done.returncode
    assert [
        f"lockstep: rank 0: {rows} line 2: value 'x' of index 2 is not a finite decimal number"
    ] == done.stderr.splitlines()
    assert [] == list((tmp_path / "rings").iterdir())


def test_a_job_that_is_not_there_is_a_sentence(environment: dict[str, str], tmp_path: Path) -> None:
    done = entry(environment, str(tmp_path / "none"))

    assert (65, "lockstep: ") == (done.returncode, done.stderr[:10])
    assert done.stderr.endswith("cannot be read: No such file or directory\n")
