"""How much of the GPU works: utilisation as ever, and the activity of its parts."""

from collector.contract import metrics as m

METRICS = (
    m.GPU_UTILIZATION,
    m.GPU_COPY_UTILIZATION,
    m.GPU_ENGINE_ACTIVE,
    m.GPU_SM_ACTIVE,
    m.GPU_SM_OCCUPANCY,
    m.GPU_TENSOR_ACTIVE,
    m.GPU_DRAM_ACTIVE,
    m.GPU_FP64_ACTIVE,
    m.GPU_FP32_ACTIVE,
    m.GPU_FP16_ACTIVE,
)
"""Shares of time and of throughput, 0 to 1."""
