"""Processes killed for lack of memory, and memory on the wrong NUMA node."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.vmstat import VirtualMemory


def collect(reading: VirtualMemory) -> Iterator[Sample]:
    """One sample for each count that the kernel keeps."""
    if reading.oom_kills is not None:
        yield m.OOM_KILLS(reading.oom_kills)
    if reading.numa_misses is not None:
        yield m.NUMA_MISSES(reading.numa_misses)
