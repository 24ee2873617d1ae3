"""Small runs of real processes for the workload tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.workloads.nursery import Nursery

Forked = Callable[[int, Callable[[int], Any]], list[Any]]


@pytest.fixture(scope="session")
def _nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def forked(_nursery: Nursery) -> Forked:
    """Calls a function in `world` forked processes and gives their JSON answers in rank order."""
    return _nursery.ranks
