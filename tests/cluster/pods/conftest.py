"""Nodes that run containers, once a session, and the release on them."""

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
from tests.cluster.pods.runs import LaunchedRun, launching, mpi_operator

Launched = Callable[..., AbstractContextManager[LaunchedRun]]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """As they are written, also where all others are shuffled: they share nodes and a release.

    A power cut gives pods other addresses, and the last test takes the release away.
    """
    here = Path(__file__).parent
    own = [at for at, item in enumerate(items) if here in item.path.parents]
    written = sorted((items[at] for at in own), key=lambda item: (item.path, item.location[1] or 0))
    for at, item in zip(own, written, strict=True):
        items[at] = item


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
