"""How long collectives take and how fast they are, as NCCL Inspector tells it."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.nccl_inspector import InspectorReading, NcclInspector


def collect(reading: InspectorReading) -> Iterator[Sample]:
    """One histogram an operation of a group, four series a range of sizes, three a rank."""
    for one in reading.operations:
        key = (one.run, one.group, one.op)
        yield from m.NCCL_DURATION.histogram(one.counts, one.seconds, *key)
        for sized in one.sizes:
            yield m.NCCL_COLLECTIVES(sized.count, *key, sized.size)
            yield m.NCCL_BYTES(sized.bytes, *key, sized.size)
            if sized.algorithm is not None and sized.bus is not None:
                yield m.NCCL_ALGORITHM_BANDWIDTH(sized.algorithm, *key, sized.size)
                yield m.NCCL_BUS_BANDWIDTH(sized.bus, *key, sized.size)
    sizes = {(one.run, one.group, one.communicator): one.size for one in reading.ranks}
    for communicator, size in sizes.items():
        yield m.NCCL_INSPECTOR_RANKS(size, *communicator)
    for each in reading.ranks:
        who = (each.run, each.group, each.communicator, str(each.rank))
        yield m.NCCL_RANK_COLLECTIVES(each.collectives, *who)
        yield m.NCCL_RANK_SECONDS(each.seconds, *who)
        if each.wait is not None:
            yield m.NCCL_RANK_WAIT(each.wait, *who)
    yield m.NCCL_SEQUENCE_GAPS(reading.gaps)
    yield m.EVENTS_DROPPED(reading.dropped, NcclInspector.name)
