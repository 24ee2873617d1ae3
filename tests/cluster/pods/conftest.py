"""Nodes that run containers, once a session, and the release on them."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from kubernetes import client

from tests.cluster.mpijob_crd import CRD
from tests.cluster.pods.real_nodes import (
    PATIENCE,
    RealNodes,
    left,
    missing,
    real_nodes,
    running,
    until,
)
from tests.cluster.pods.release import RUNS, Prometheus, all_ready, install, uninstall
from tests.cluster.pods.release import left as left_of
from tests.cluster.pods.running_operator import RunningMpiOperator

Launched = Callable[..., AbstractContextManager["subprocess.Popen[str]"]]


@pytest.fixture(scope="session")
def nodes() -> Iterator[RealNodes]:
    """Two nodes; nothing is left of them on this machine."""
    if reason := missing():
        pytest.skip(reason)
    if (made := running()) is not None:
        yield made
        return
    with real_nodes(2) as made:
        yield made
    assert "" == left()


@pytest.fixture(scope="session")
def release(nodes: RealNodes) -> Iterator[RealNodes]:
    """The release, all of it Ready; who changes it puts it back."""
    install(nodes)
    until(lambda: all_ready(nodes), PATIENCE)
    yield nodes
    uninstall(nodes)
    until(lambda: [] == left_of(nodes), PATIENCE)


@pytest.fixture(scope="module")
def prometheus(release: RealNodes) -> Iterator[Prometheus]:
    """It knows the pods of now: of each module's own."""
    with Prometheus(release) as made:
        yield made


@pytest.fixture(scope="session")
def operator(release: RealNodes) -> Iterator[None]:
    """MPIJobs become pods."""
    definitions = client.ApiextensionsV1Api(release.api)
    name = CRD["metadata"]["name"]
    definitions.create_custom_resource_definition(CRD)
    until(lambda: any(
        one.type == "Established" and one.status == "True"
        for one in definitions.read_custom_resource_definition(name).status.conditions or ()
    ))  # fmt: skip
    with RunningMpiOperator(release.api, RUNS):
        yield
    definitions.delete_custom_resource_definition(name)


@pytest.fixture
def launched(release: RealNodes, tmp_path: Path) -> Launched:
    """`lockstep run --launcher kubernetes` with two nodes, until the block ends."""

    @contextlib.contextmanager
    def begun(*words: str) -> Iterator["subprocess.Popen[str]"]:
        command = [
            sys.executable, "-m", "lockstep", "run", "gpt", "--nodes=2", "--launcher=kubernetes",
            "--device=cpu", "--image=localhost/lockstep-workloads:0.1.0",
            f"--kubeconfig={release.kubeconfig}", f"--out={tmp_path / 'run'}", "-ojson", *words,
        ]  # fmt: skip
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as run:
            try:
                yield run
            finally:
                if run.poll() is None:
                    run.terminate()
                run.communicate(timeout=120)

    return begun
