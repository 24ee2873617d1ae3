"""Nodes that run containers, once a session, and the release on them."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.pods.real_nodes import (
    PATIENCE,
    RealNodes,
    left,
    missing,
    real_nodes,
    running,
    until,
)
from tests.cluster.pods.release import Prometheus, all_ready, install, uninstall
from tests.cluster.pods.release import left as left_of
from tests.cluster.pods.runs import launching, mpi_operator

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


@pytest.fixture(scope="session")
def running_prometheus(release: RealNodes) -> Iterator[Prometheus]:
    """One for all tests."""
    with Prometheus(release) as made:
        yield made


@pytest.fixture
def prometheus(running_prometheus: Prometheus) -> Prometheus:
    """It knows the pods of now: those of tests before may have been replaced."""
    running_prometheus.follow()
    return running_prometheus


@pytest.fixture(scope="session")
def operator(release: RealNodes) -> Iterator[None]:
    """MPIJobs become pods."""
    with mpi_operator(release):
        yield


@pytest.fixture
def launched(release: RealNodes, tmp_path: Path) -> Launched:
    """`lockstep run --launcher kubernetes` with two nodes, until the block ends."""

    return partial(launching, release, tmp_path / "run")
