"""A Prometheus that answers what the loader asks, from series in memory."""

from collections.abc import Callable, Iterator

import pytest

from tests.analyzer.read.prometheus import fake as server
from tests.analyzer.read.prometheus.fake import Fake, Series


@pytest.fixture
def fake() -> Iterator[Fake]:
    """A Fake that is being served."""
    with server.serving() as state:
        yield state


@pytest.fixture
def stored() -> Callable[..., list[Series]]:
    """`stored(samples, run, world)`: samples of an archive as a Prometheus keeps them."""
    return server.stored
