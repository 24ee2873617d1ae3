"""The GPU's memory."""

from collector.contract import metrics as m

METRICS = (
    m.GPU_MEMORY_USED,
    m.GPU_MEMORY_FREE,
    m.GPU_MEMORY_RESERVED,
    m.GPU_MEMORY_TOTAL,
)
"""Bytes."""
