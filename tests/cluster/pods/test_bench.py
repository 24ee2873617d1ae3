"""A benchmark whose cells are MPIJobs in pods, and a run that goes on from another's checkpoint."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lockstep.bench import results
from tests.cluster.pods.conftest import Launched
from tests.cluster.pods.real_nodes import PATIENCE, REGISTRY, RealNodes, until
from tests.cluster.pods.release import RUNS, shared_folder
from tests.cluster.pods.runs import LaunchedRun, begun

pytestmark = [
    pytest.mark.pods,
    pytest.mark.sweep(sample=0),  # at night: runs take minutes
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
SPEC = """
[bench]
name = "pods"
launcher = "kubernetes"
timeout = 600
options = {{device = "cpu", kubeconfig = "{kubeconfig}", steps = 60, device-seconds = 0.1}}
[workloads.gpt]
[matrix]
nodes = [2]
images = ["{registry}/lockstep-workloads:0.1.0"]
settings = [{{}}, {{fault = "compute:rank=1,factor=2,from=20"}}]
"""


def bench(file: Path) -> "subprocess.CompletedProcess[str]":
    words = (sys.executable, "-m", "lockstep", "bench", "run", str(file), "--out",
             str(file.with_suffix("")))  # fmt: skip
    return subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)


def test_a_benchmark_runs_its_cells_in_pods_and_repeats_none(
    operator: None, release: RealNodes, tmp_path: Path
):
    file = tmp_path / "pods.toml"
    file.write_text(SPEC.format(kubeconfig=release.kubeconfig, registry=REGISTRY))
    done = bench(file)
    assert 0 == done.returncode, done.stderr
    usual, slow = results.read(tmp_path / "pods" / "results.parquet")

    assert ["finished"] * 2 == [usual["status"], slow["status"]], done.stderr
    assert sorted(release.names) == usual["node_names"] == slow["node_names"]
    assert usual["step_seconds"] < slow["step_seconds"]
    assert ("healthy", []) == (usual["verdict"], usual["culprits"])
    assert [f"{slow['rank_nodes'][1]} rank 1 gpu 0: slow-gpu"] == slow["culprits"]
    assert f"lockstep-runs:/{slow['run']}" == slow["archive"]
    assert (shared_folder(release) / slow["run"] / "verdict.json").exists()
    until(lambda: not release.pods(RUNS), PATIENCE)

    again = bench(file)
    assert 0 == again.returncode, again.stderr
    assert [usual, slow] == results.read(tmp_path / "pods" / "results.parquet")
    assert [] == release.pods(RUNS)


def test_a_run_goes_on_from_the_checkpoint_of_another_on_the_claim(
    operator: None, release: RealNodes, launched: Launched, tmp_path: Path
):
    def ended(run: LaunchedRun) -> Path:
        begun(release, run)
        said, errors = run.communicate(timeout=600)
        assert 0 == run.returncode, errors
        assert "finished" == json.loads(said)["ending"]
        until(lambda: not release.pods(RUNS), PATIENCE)
        return shared_folder(release) / run.name

    def steps(archive: Path) -> list[int]:
        return sorted(set(pq.read_table(archive / "steps.parquet")["step"].to_pylist()))

    with launched("--steps=100", "--checkpoint-every=50", "--device-seconds=0.1") as run:
        first = ended(run)
    checkpoints, out = f"/runs/{first.name}/checkpoints", tmp_path / "second"
    more = ("--steps=200", "--device-seconds=0.1", f"--resume={checkpoints}", f"--out={out}")
    with launched(*more) as run:
        second = ended(run)

    assert 0 == steps(first)[0]
    assert 100 == steps(second)[0]
