"""Nodes that run containers, once a session, and the release on them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.pods.cells import Benchmark
from tests.cluster.pods.real_nodes import (
    PATIENCE,
    RealNodes,
    alone,
    left,
    missing,
    real_nodes,
    running,
    until,
)
from tests.cluster.pods.release import Prometheus, as_wanted, settled, uninstall
from tests.cluster.pods.release import left as left_of
from tests.cluster.pods.runs import LaunchedRun, begun, launching, mpi_operator

Launched = Callable[..., AbstractContextManager[LaunchedRun]]


ORDER = ("contradictions", "pods", "runs", "release", "bench", "lost", "spoiled", "uninstall")
"""Files as they are run, with one installation for all: the first installs it with wrong values,
a power cut gives pods other addresses, what is spoiled stays so, and the last takes it away."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In that order, also where all others are shuffled: they share nodes and a release."""
    here = Path(__file__).parent
    own = [at for at, item in enumerate(items) if here in item.path.parents]

    def place(item: pytest.Item) -> tuple[int, int]:
        return ORDER.index(item.path.stem.removeprefix("test_")), item.location[1] or 0

    written = sorted((items[at] for at in own), key=place)
    for at, item in zip(own, written, strict=True):
        items[at] = item


def begin(request: pytest.FixtureRequest, *fixtures: str) -> None:
    """Set up those that tests of this session ask for: they wait while others are looked at."""
    asked = {name for item in request.session.items if isinstance(item, pytest.Function)
             for name in item.fixturenames}  # fmt: skip
    for name in fixtures:
        if name in asked:
            request.getfixturevalue(name)


@pytest.fixture(scope="session")
def nodes() -> Iterator[RealNodes]:
    """Two nodes; nothing is left of them on this machine."""
    if reason := missing():
        pytest.skip(reason)
    with alone() as ours:
        if not ours:
            pytest.skip("other tests had the nodes of this machine for seven minutes")
        if (made := running()) is not None:
            yield made
            return
        with real_nodes(2) as made:
            yield made
        assert "" == left()


@pytest.fixture(scope="session")
def bare_nodes(nodes: RealNodes) -> Iterator[RealNodes]:
    """Nodes without a release; what tests install there is taken away, or goes with them."""
    yield nodes
    if nodes.stay:
        uninstall(nodes)
        until(lambda: [] == left_of(nodes), PATIENCE)


@pytest.fixture(scope="session")
def release(bare_nodes: RealNodes) -> RealNodes:
    """The release, all of it Ready; who changes it puts it back."""
    as_wanted(bare_nodes)
    until(lambda: settled(bare_nodes), PATIENCE)
    return bare_nodes


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


@pytest.fixture(scope="session")
def slow_run(
    running_prometheus: Prometheus,
    operator: None,
    release: RealNodes,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LaunchedRun]:
    """A run whose third rank is slow after three quarters of a minute.

    Of four ranks: two have no majority, and the sequential test judges neither. It learns what is
    usual from 40 scrapes: what is slow before is usual to it. A step has a tenth of a second, and a
    fifth once it is slow, for long enough to be looked at.
    """
    running_prometheus.follow()
    words = ("--ranks-per-node=2", "--device-seconds=0.1", "--steps=1050",
             "--fault=compute:rank=2,factor=2,from=450", "--timeout=1500")  # fmt: skip
    with launching(release, tmp_path_factory.mktemp("slow") / "run", *words) as run:
        begun(release, run)
        yield run


@pytest.fixture(scope="session")
def benchmark(
    operator: None, release: RealNodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Benchmark]:
    """It has begun."""
    one = Benchmark(release, tmp_path_factory.mktemp("bench"))
    yield one
    one.stop()
