"""What the disks did."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.diskstats import Disks


def collect(reading: Disks) -> Iterator[Sample]:
    """Eight samples a disk."""
    for disk in reading.disks:
        for metric, pair in (
            (m.DISK_BYTES, disk.bytes),
            (m.DISK_OPERATIONS, disk.operations),
            (m.DISK_TIME, disk.seconds),
        ):
            yield metric(pair[0], disk.device, "read")
            yield metric(pair[1], disk.device, "write")
        yield m.DISK_BUSY(disk.busy_seconds, disk.device)
        yield m.DISK_IN_FLIGHT(disk.in_flight, disk.device)
