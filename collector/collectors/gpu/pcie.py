"""The GPU's PCIe link."""

from collector.contract import metrics as m

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
"""Width, generation, errors and traffic."""
