"""The simulated GPUs of emulated devices, and they say so."""

from collections.abc import Iterator

from collector.contract import metrics as m
from collector.contract.device import DeviceState
from collector.contract.metrics import Sample
from collector.contract.words import CLOCK_EVENT_REASONS
from collector.sources.simulated import SimulatedReading

NOT_TOLD = ("",) * (len(m.GPU_INFO.labels) - 5)
"""Labels of the identity that a simulated GPU does not have."""


def collect(reading: SimulatedReading) -> Iterator[Sample]:
    """Every value of every GPU, as its state file tells it."""
    for state in reading.gpus:
        yield from _gpu(state)


def _gpu(state: DeviceState) -> Iterator[Sample]:
    gpu = (str(state["gpu"]), state["uuid"])
    yield m.GPU_INFO(1, *gpu, state["model"], state["driver"], "true", *NOT_TOLD)
    yield m.GPU_UP(1, *gpu)
    yield m.GPU_UTILIZATION(state["utilization_ratio"], *gpu)
    yield m.GPU_MEMORY_USED(state["memory_used_bytes"], *gpu)
    yield m.GPU_MEMORY_TOTAL(state["memory_total_bytes"], *gpu)
    yield m.GPU_TEMPERATURE(state["temperature_celsius"], *gpu, "gpu")
    yield m.GPU_TEMPERATURE_LIMIT(state["slowdown_limit_celsius"], *gpu, "slowdown")
    yield m.GPU_TEMPERATURE_LIMIT(state["shutdown_limit_celsius"], *gpu, "shutdown")
    yield m.GPU_POWER(state["power_watts"], *gpu)
    yield m.GPU_POWER_LIMIT(state["power_limit_watts"], *gpu, "enforced")
    yield m.GPU_POWER_LIMIT(state["power_limit_default_watts"], *gpu, "default")
    yield m.GPU_ENERGY(state["energy_joules"], *gpu)
    yield m.GPU_CLOCK(state["sm_clock_hertz"], *gpu, "sm")
    yield m.GPU_CLOCK_MAX(state["sm_clock_max_hertz"], *gpu, "sm")
    for reason in CLOCK_EVENT_REASONS:
        yield m.GPU_CLOCK_EVENT_ACTIVE(int(reason in state["clock_event_active"]), *gpu, reason)
        if reason in state["clock_event_seconds"]:
            yield m.GPU_CLOCK_EVENT_SECONDS(state["clock_event_seconds"][reason], *gpu, reason)
