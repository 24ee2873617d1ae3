"""GPUs, whichever source told of them: one file a subject."""

from collections.abc import Callable, Iterator

from collector.collectors.gpu import (
    activity,
    clocks,
    ecc,
    health,
    identity,
    memory,
    nvlink,
    pcie,
    power,
    temperature,
)
from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.gpu_reading import Gpu, GpuReading

SUBJECTS: tuple[Callable[[Gpu], Iterator[Sample]], ...] = (
    identity.collect,
    health.collect,
    activity.collect,
    memory.collect,
    temperature.collect,
    power.collect,
    clocks.collect,
    ecc.collect,
    pcie.collect,
    nvlink.collect,
)
"""What is said of a GPU that answers."""


def collect(reading: GpuReading) -> Iterator[Sample]:
    """Everything that was told; of a GPU that does not answer, only that."""
    if reading.expected is not None:
        yield m.GPU_EXPECTED(reading.expected)
    if reading.present is not None:
        yield m.GPU_PRESENT(reading.present)
    for gpu in reading.gpus:
        yield from health.collect_up(gpu)
        if gpu.up:
            for subject in SUBJECTS:
                yield from subject(gpu)
