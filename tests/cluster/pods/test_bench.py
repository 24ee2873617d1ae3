"""A benchmark whose cells are MPIJobs in pods."""

import pytest

from lockstep.bench import results
from tests.cluster.pods.cells import Benchmark
from tests.cluster.pods.real_nodes import PATIENCE, RealNodes, until
from tests.cluster.pods.release import RUNS, shared_folder

pytestmark = [
    pytest.mark.pods,
    pytest.mark.sweep(sample=0),  # at night: runs take minutes
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]


def test_a_benchmark_runs_its_cells_in_pods_and_repeats_none(
    benchmark: Benchmark, release: RealNodes
):
    said = benchmark.ended()
    usual, slow = results.read(benchmark.folder / "results.parquet")

    assert ["finished"] * 2 == [usual["status"], slow["status"]], said
    assert sorted(release.names) == usual["node_names"] == slow["node_names"]
    assert usual["step_seconds"] < slow["step_seconds"]
    assert ("healthy", []) == (usual["verdict"], usual["culprits"])
    assert [f"{slow['rank_nodes'][1]} rank 1 gpu 0: slow-gpu"] == slow["culprits"]
    assert f"lockstep-runs:/{slow['run']}" == slow["archive"]
    assert (shared_folder(release) / slow["run"] / "verdict.json").exists()
    until(lambda: not release.pods(RUNS), PATIENCE)

    benchmark.again()
    assert [usual, slow] == results.read(benchmark.folder / "results.parquet")
    assert [] == release.pods(RUNS)
