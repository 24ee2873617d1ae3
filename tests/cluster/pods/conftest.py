"""Nodes that run containers, once a session, and the release on them."""

from collections.abc import Iterator

import pytest

from tests.cluster.pods.real_nodes import RealNodes, left, missing, real_nodes, running


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
