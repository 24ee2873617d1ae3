"""How long the CPU quota held each rank back."""

from collections.abc import Iterator

from collector.contract.metrics import RANK_THROTTLED, Sample
from collector.sources.cgroup import Throttled


def collect(reading: Throttled) -> Iterator[Sample]:
    """One sample a rank whose cgroup keeps the count."""
    for rank, seconds in reading.seconds:
        yield RANK_THROTTLED(seconds, rank.run, str(rank.rank))
