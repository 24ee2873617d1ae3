"""What every test against a cluster may use: one real control plane a session."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from lockstep.app import main
from tests.cluster.control_plane import ControlPlane, control_plane, missing

NODES = 4
ACCOUNTS = (
    "lockstep:lockstep-nodes",
    "lockstep:lockstep-runs",
    "lockstep-runs:lockstep-runs",
    "lockstep:lockstep-watch",
    "lockstep-collector:lockstep-collector",
    "of-the-chart:lockstep-test",
)
"""Service accounts that get a token; their namespaces and roles are the tests' own to make."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server, controllers, a scheduler and four hollow nodes; tests clean up after them."""
    if reason := missing():
        pytest.skip(reason)
    with ExitStack() as stack:
        yield _started(stack, tmp_path_factory)


def _started(stack: ExitStack, folders: pytest.TempPathFactory) -> ControlPlane:
    """One that runs; it is tried twice, since somebody else may take a port that was free."""
    try:
        return stack.enter_context(control_plane(folders.mktemp("plane"), NODES, ACCOUNTS))
    except RuntimeError:
        return stack.enter_context(control_plane(folders.mktemp("plane"), NODES, ACCOUNTS))


@pytest.fixture
def lockstep(capsys: pytest.CaptureFixture[str]) -> Callable[..., SimpleNamespace]:
    """`lockstep("nodes", "--remove")` runs a command as the shell would."""

    def call(*words: str) -> SimpleNamespace:
        code = main(words)
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return call
