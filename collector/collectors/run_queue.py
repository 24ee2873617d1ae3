"""How long each rank waited for a processor."""

from collections.abc import Iterator

from lockstep.collector.contract.metrics import RANK_RUN_QUEUE, Sample
from lockstep.collector.sources.schedstat import RunQueued


def collect(reading: RunQueued) -> Iterator[Sample]:
    """One sample a living rank."""
    for rank, seconds in reading.seconds:
        yield RANK_RUN_QUEUE(seconds, rank.run, str(rank.rank))
