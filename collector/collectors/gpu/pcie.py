"""The GPU's PCIe link."""

from collections.abc import Iterator

from collector.collectors.gpu.rows import rows
from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.gpu_reading import Gpu

METRICS = (
    m.GPU_PCIE_WIDTH,
    m.GPU_PCIE_WIDTH_MAX,
    m.GPU_PCIE_GENERATION,
    m.GPU_PCIE_GENERATION_MAX,
    m.GPU_PCIE_REPLAY,
    m.GPU_PCIE_REPLAY_ROLLOVER,
    m.GPU_PCIE_ERRORS,
    m.GPU_PCIE_RECOVERY,
    m.GPU_PCIE_BYTES,
)


def collect(gpu: Gpu) -> Iterator[Sample]:
    """Width, generation, errors and traffic."""
    return rows(gpu, METRICS)
