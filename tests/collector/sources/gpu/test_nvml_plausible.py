"""What two readings of any GPU must be, asserted of our libnvidia-ml and of a real driver.

What the same test found on hardware is recorded by `python -m lockstep.collector --capture
FOLDER`, as root or as a user who may open /dev/nvidia*; it needs the driver, nvidia-ml-py and ten
seconds.
"""

import math
import time
from pathlib import Path

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Kind
from lockstep.collector.readings.gpu import GpuReading
from lockstep.collector.readings.kernel import pci_bus_id
from lockstep.collector.samples.gpu import collect
from lockstep.collector.sources.gpu.nvml import library
from lockstep.collector.sources.gpu.nvml.source import Limits, Nvml

pytest.importorskip("pynvml")
PATIENT = Limits(answer=60.0, start=60.0, stall=120.0, kill=240.0, attach=240.0)
PLAUSIBLE = {
    m.GPU_TEMPERATURE: (0, 120), m.GPU_POWER: (1, 2000), m.GPU_POWER_LIMIT: (10, 2500),
    m.GPU_CLOCK: (1e7, 1e10), m.GPU_CLOCK_MAX: (1e8, 1e10), m.GPU_MEMORY_TOTAL: (1 << 28, 1 << 40),
    m.GPU_MEMORY_USED: (0, 1 << 40), m.GPU_ENERGY: (1, 1e13), m.GPU_PERFORMANCE_STATE: (0, 15),
    m.GPU_UTILIZATION: (0, 1), m.GPU_COPY_UTILIZATION: (0, 1), m.GPU_SM_ACTIVE: (0, 1),
    m.GPU_TENSOR_ACTIVE: (0, 1), m.GPU_DRAM_ACTIVE: (0, 1), m.GPU_PCIE_WIDTH: (1, 32),
    m.GPU_PCIE_GENERATION: (1, 8), m.GPU_NVLINK_UP: (0, 1), m.GPU_ECC_MODE: (0, 1),
    m.GPU_SAMPLE_INTERVAL: (0, 60), m.GPU_PROCESSES: (0, 10_000),
}  # fmt: skip
"""Lowest and highest in base units: a value in the driver's own unit is outside."""
EVERY = (m.GPU_UP, m.GPU_STALLED, m.GPU_INFO, m.GPU_TEMPERATURE, m.GPU_CLOCK, m.GPU_MEMORY_TOTAL)
"""What no GPU lacks."""


def assert_plausible(before: GpuReading, after: GpuReading) -> None:
    old = {(s.metric.name, s.labels): s.value for s in collect(before)}
    samples = list(collect(after))
    gpus = [gpu for gpu in after.gpus if not gpu.is_mig]
    fell = [
        s for s in samples
        if s.metric.kind is Kind.COUNTER and s.value < old.get((s.metric.name, s.labels), 0)
    ]  # fmt: skip
    outside = [
        s for s in samples
        if s.metric in PLAUSIBLE
        and not PLAUSIBLE[s.metric][0] <= s.value <= PLAUSIBLE[s.metric][1]
    ]  # fmt: skip
    lacking = [
        (metric.name, gpu.uuid) for metric in EVERY for gpu in gpus
        if not any(s.metric is metric and s.labels[1] == gpu.uuid for s in samples)
    ]  # fmt: skip

    assert after.rejected == ()
    assert after.present == len(gpus)
    assert after.present <= (after.expected or 0)
    assert all(gpu.up and not gpu.stalled for gpu in gpus)
    assert all(gpu.uuid.startswith("GPU-") for gpu in gpus)
    assert len({gpu.uuid for gpu in gpus}) == len(gpus)
    assert all(pci_bus_id(gpu.info["pci_bus_id"]) for gpu in gpus)
    assert all(gpu.info["model"] and gpu.info["driver"] for gpu in gpus)
    assert [s for s in samples if not math.isfinite(s.value)] == []
    assert (lacking, fell, outside) == ([], [], [])
    assert [s for s in samples if len(s.labels) != len(s.metric.labels)] == []


def two_readings(source: Nvml, pause: float) -> tuple[GpuReading, GpuReading]:
    try:
        source.read()
        before = source.read()
        time.sleep(pause)
        return before, source.read()
    finally:
        source.close()


def test_our_library_tells_what_a_driver_could(nvml, machine):
    source = Nvml(machine.proc, machine.sys, SystemClock(), limits=PATIENT)

    assert_plausible(*two_readings(source, 0.05))


@pytest.mark.gpu
def test_a_real_driver_tells_the_same_shapes(monkeypatch):
    monkeypatch.delenv("NVML_MOCK_STATE", raising=False)
    source = Nvml(Path("/proc"), Path("/sys"), SystemClock(), limits=PATIENT)
    if not source.available() or library.kernel_module(Path("/proc")) is None:
        pytest.skip("no NVIDIA driver on this machine")

    assert_plausible(*two_readings(source, 1.0))
