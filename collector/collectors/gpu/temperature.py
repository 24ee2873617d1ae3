"""How hot the GPU and its memory are, and how hot they may get."""

from collector.contract import metrics as m

METRICS = (
    m.GPU_TEMPERATURE,
    m.GPU_TEMPERATURE_MARGIN,
    m.GPU_TEMPERATURE_LIMIT,
    m.GPU_TEMPERATURE_LIMIT_MARGIN,
)
"""Temperatures, the margin to slowdown, and limits on both scales."""
