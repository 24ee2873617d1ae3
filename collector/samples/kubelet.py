"""Who uses each GPU, as one series to join on, and what the kubelet gave away."""

from collections import Counter
from collections.abc import Iterator
from operator import attrgetter

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.kubelet.allocation.source import AllocationReading
from lockstep.collector.sources.kubelet.pod_resources import PodResourcesReading

_LABELS = attrgetter(*m.GPU_ALLOCATION_INFO.labels)
"""The labels of a holder are its fields."""


def collect_allocation(reading: AllocationReading) -> Iterator[Sample]:
    """One sample a holder."""
    if reading.kubelet_age is not None:
        yield m.GPU_ALLOCATION_AGE(reading.kubelet_age)
    for holder in reading.holders:
        yield m.GPU_ALLOCATION_INFO(1, *_LABELS(holder))


def collect_devices(reading: PodResourcesReading) -> Iterator[Sample]:
    """Devices in containers, by resource."""
    for resource, count in sorted(Counter(device.resource for device in reading.devices).items()):
        yield m.KUBELET_DEVICES(count, resource)
