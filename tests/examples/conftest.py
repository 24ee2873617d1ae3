"""What the tests of the examples share."""

import pytest

from lockstep.workloads.launch.joining import reachable


@pytest.fixture
def free_port() -> int:
    return reachable.free_port()
