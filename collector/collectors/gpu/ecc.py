"""Memory errors and the spare rows and pages that are left."""

from collections.abc import Iterator

from collector.collectors.gpu.rows import rows
from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.gpu_reading import Gpu

METRICS = (
    m.GPU_ECC_ERRORS,
    m.GPU_ECC_LOCATION_ERRORS,
    m.GPU_ECC_MODE,
    m.GPU_SRAM_THRESHOLD,
    m.GPU_REMAPPED_ROWS,
    m.GPU_ROW_REMAP_PENDING,
    m.GPU_ROW_REMAP_FAILED,
    m.GPU_ROW_REMAP_BANKS,
    m.GPU_RETIRED_PAGES,
    m.GPU_RETIRED_PENDING,
)


def collect(gpu: Gpu) -> Iterator[Sample]:
    """Counts by type and place, and what waits for a reset."""
    return rows(gpu, METRICS)
