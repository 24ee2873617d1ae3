"""Power, its limits, and energy."""

from collector.contract import metrics as m

METRICS = (
    m.GPU_POWER,
    m.GPU_POWER_AVERAGE,
    m.GPU_POWER_LIMIT,
    m.GPU_ENERGY,
)
"""Watts and joules."""
