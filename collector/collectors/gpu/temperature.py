"""How hot the GPU and its memory are, and how hot they may get."""

from collections.abc import Iterator

from collector.collectors.gpu.rows import rows
from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.gpu_reading import Gpu

METRICS = (
    m.GPU_TEMPERATURE,
    m.GPU_TEMPERATURE_MARGIN,
    m.GPU_TEMPERATURE_LIMIT,
    m.GPU_TEMPERATURE_LIMIT_MARGIN,
)


def collect(gpu: Gpu) -> Iterator[Sample]:
    """Temperatures, the margin to slowdown, and limits on both scales."""
    return rows(gpu, METRICS)
