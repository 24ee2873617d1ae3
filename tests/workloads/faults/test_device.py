"""The emulated device and the simulated GPU that belongs to it."""

import json
from pathlib import Path
from time import monotonic, thread_time

import pytest

from lockstep.collector.contract.device import DeviceState
from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.device import SHARES, EmulatedDevice, device_seconds
from lockstep.workloads.faults.inject import Injector
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.faults.simulated_gpu import (
    CLOCK_MAX_HERTZ,
    SLOWDOWN_CELSIUS,
    SimulatedGpu,
    Trouble,
)


def step_seconds(device: EmulatedDevice) -> float:
    began = monotonic()
    for name in ("forward", "backward", "optimizer"):
        with device.segment(name):
            pass
    return monotonic() - began


def test_a_step_takes_the_devices_time_whatever_the_arithmetic_took() -> None:
    device = EmulatedDevice(0.04, noise=0.0, seed=1)
    device.start_step(0.0)

    assert step_seconds(device) >= 0.04


def test_a_fault_adds_its_device_time() -> None:
    device = EmulatedDevice(0.02, noise=0.0, seed=1)
    device.start_step(0.02)

    assert step_seconds(device) >= 0.04


class Clock:
    """Time that passes when somebody sleeps or computes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("lockstep.workloads.faults.device.monotonic", lambda: self.now)
        monkeypatch.setattr("lockstep.workloads.faults.device.sleep", self.compute)

    def compute(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    ("before", "after", "added"),
    [
        (0.0, 0.0, 0.006),  # the device alone decides
        (0.0, 0.004, 0.006),  # healthy: ready after 0.009, so the device's 0.010; now 0.016
        (0.0, 0.009, 0.003),  # healthy: 0.005 and 0.009; now 0.008 and 0.009
        (0.007, 0.0, 0.006),
        (0.02, 0.0, 0.0),  # no device was waited for
    ],
)
def test_what_a_fault_added_is_what_a_healthy_device_would_not_have_taken(
    monkeypatch: pytest.MonkeyPatch, before: float, after: float, added: float
) -> None:
    """Of 0.01 s of forward on a healthy device, and 0.006 more by the fault."""
    clock = Clock(monkeypatch)
    device = EmulatedDevice(0.01 / SHARES["forward"], noise=0.0, seed=1)
    device.start_step(0.006 / SHARES["forward"])
    with device.segment("forward"):
        clock.compute(before)
        device.reach(0.5)
        clock.compute(after)

    assert device.added_seconds == pytest.approx(added)


def test_without_pace_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    monkeypatch.setattr("lockstep.workloads.faults.device.sleep", naps.append)
    device = EmulatedDevice(None, noise=0.0, seed=1)
    device.start_step(0.0)
    with device.segment("backward"):
        device.reach(0.5)

    assert [] == naps


def test_without_pace_a_fault_is_more_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    monkeypatch.setattr("lockstep.workloads.faults.device.sleep", naps.append)
    device = EmulatedDevice(None, noise=0.0, seed=1)
    device.start_step(0.03)
    began = thread_time()
    seconds = step_seconds(device)
    computed = thread_time() - began

    # How much of a processor it is given meanwhile is the machine's affair.
    assert seconds >= 0.03
    assert computed > 0
    assert [] == naps


def test_device_time_leaves_the_processors_headroom() -> None:
    assert 0.04 == device_seconds(0.04, cpu_seconds=0.001, world=4, cores=2)
    assert 0.052 == pytest.approx(device_seconds(0.04, cpu_seconds=0.01, world=8, cores=2))


def lived(kind: FaultKind | None, factor: float, seconds: float = 6.0) -> DeviceState:
    gpu = SimulatedGpu(0, "SIM-a", seed=4)
    kinds = frozenset() if kind is None else frozenset((kind,))
    trouble = Trouble(kinds, factor, heating=kind is FaultKind.THERMAL)
    for _ in range(int(seconds / 0.05)):
        gpu.advance(0.05, 0.8, trouble)
    return gpu.state()


def test_a_healthy_gpu_runs_at_full_clock_and_never_throttles() -> None:
    state = lived(None, 1.0)

    assert state["sm_clock_hertz"] == CLOCK_MAX_HERTZ
    assert [] == state["clock_event_active"]
    assert 0 == sum(state["clock_event_seconds"].values())
    assert state["temperature_celsius"] < 75


def test_an_overheated_gpu_is_hot_clocked_down_and_counts_thermal_seconds() -> None:
    state = lived(FaultKind.THERMAL, 1.5)

    assert state["temperature_celsius"] >= SLOWDOWN_CELSIUS
    assert state["sm_clock_hertz"] == pytest.approx(CLOCK_MAX_HERTZ / 1.5)
    assert ["hw_thermal"] == state["clock_event_active"]
    assert state["clock_event_seconds"]["hw_thermal"] == pytest.approx(6.0 * 0.8)
    assert 0 == state["clock_event_seconds"]["sw_power_cap"]


def test_a_capped_gpu_sits_at_its_cap_and_is_not_hot() -> None:
    state = lived(FaultKind.POWER, 1.5)

    assert state["power_limit_watts"] < state["power_limit_default_watts"]
    assert state["power_watts"] == pytest.approx(state["power_limit_watts"], rel=0.02)
    assert state["clock_event_seconds"]["sw_power_cap"] > 0
    assert state["temperature_celsius"] < 75


def test_the_temperature_rises_before_the_clock_falls() -> None:
    device = EmulatedDevice(0.04, noise=0.0, seed=1)
    fault = Fault(FaultKind.THERMAL, 0, None, 1.5, from_step=50, to_step=100)
    injector = Injector((fault,), device, None)
    gpu = SimulatedGpu(0, "SIM-a", seed=4)
    for step in range(50):
        injector.before_step(step)
        injector.after_step(step, 0.04)
        injector.tell(gpu, step, 0.06)
    before = gpu.state()
    injector.before_step(50)
    injector.tell(gpu, 50, 0.08)

    assert before["temperature_celsius"] > 80
    assert before["sm_clock_hertz"] == CLOCK_MAX_HERTZ
    assert gpu.state()["sm_clock_hertz"] < CLOCK_MAX_HERTZ


def test_the_state_file_is_replaced_whole(tmp_path: Path) -> None:
    gpu = SimulatedGpu(1, "SIM-b", seed=2)
    gpu.write(tmp_path / "gpu-1.json")

    assert [tmp_path / "gpu-1.json"] == list(tmp_path.iterdir())
    assert DeviceState.__required_keys__ == json.loads((tmp_path / "gpu-1.json").read_text()).keys()
