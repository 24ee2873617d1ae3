"""How long CPU quotas held back each rank, and everything on this node."""

from collections.abc import Iterator

from lockstep.collector.contract.metrics import CPU_THROTTLED, RANK_THROTTLED, Sample
from lockstep.collector.sources.cgroup import Throttled
from lockstep.collector.sources.cgroup_tree import NodeThrottled


def collect(reading: Throttled) -> Iterator[Sample]:
    """One sample a rank whose cgroup keeps the count."""
    for rank, seconds in reading.seconds:
        yield RANK_THROTTLED(seconds, rank.run, str(rank.rank))


def collect_node(reading: NodeThrottled) -> Iterator[Sample]:
    """One sample for all groups of the node."""
    yield CPU_THROTTLED(reading.seconds)
