"""The GPU's memory."""

from collections.abc import Iterator

from collector.collectors.gpu.rows import rows
from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.gpu_reading import Gpu

METRICS = (
    m.GPU_MEMORY_USED,
    m.GPU_MEMORY_FREE,
    m.GPU_MEMORY_RESERVED,
    m.GPU_MEMORY_TOTAL,
)


def collect(gpu: Gpu) -> Iterator[Sample]:
    """Bytes."""
    return rows(gpu, METRICS)
