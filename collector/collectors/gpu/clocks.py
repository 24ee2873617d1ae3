"""Clocks, and what holds them down."""

from collections.abc import Iterator

from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.contract.words import CLOCK_EVENT_BITS
from collector.gpu_reading import CLOCK_EVENTS, Gpu

METRICS = (m.GPU_CLOCK, m.GPU_CLOCK_MAX, m.GPU_PERFORMANCE_STATE, m.GPU_CLOCK_EVENT_SECONDS)


def collect_reasons(gpu: Gpu) -> Iterator[Sample]:
    """Every reason as 0 or 1, where the driver tells them."""
    bits = gpu.value(CLOCK_EVENTS)
    if bits is not None:
        for reason, bit in CLOCK_EVENT_BITS.items():
            yield m.GPU_CLOCK_EVENT_ACTIVE(
                int(bool(int(bits) & bit)), str(gpu.index), gpu.uuid, reason
            )
