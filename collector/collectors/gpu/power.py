"""Power, its limits, and energy."""

from collections.abc import Iterator

from collector.collectors.gpu.rows import rows
from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.gpu_reading import Gpu

METRICS = (
    m.GPU_POWER,
    m.GPU_POWER_AVERAGE,
    m.GPU_POWER_LIMIT,
    m.GPU_ENERGY,
)


def collect(gpu: Gpu) -> Iterator[Sample]:
    """Watts and joules."""
    return rows(gpu, METRICS)
