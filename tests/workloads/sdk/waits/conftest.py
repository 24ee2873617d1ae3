"""A port for the ranks of a program to meet at."""

import pytest

from lockstep.workloads.launch.joining.reachable import free_port


@pytest.fixture
def port() -> int:
    return free_port()
