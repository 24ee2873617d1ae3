"""GPUs through the real nvidia-ml-py and a libnvidia-ml of our own, in a real child process."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.words import CLOCK_EVENT_BITS
from lockstep.collector.readings.source import SourceError
from lockstep.collector.samples.gpu import collect
from lockstep.collector.sources.gpu.nvml import library
from lockstep.collector.sources.gpu.nvml.source import Limits, Nvml
from tests.machine import slowness

pytest.importorskip("pynvml")
FIRST = ("0", "GPU-0")
LIMITS = Limits(answer=60.0, start=60.0, stall=120.0, kill=240.0, attach=240.0)
"""Patient: of what is slow because the machine is, nothing is told here."""
"""Patient: this machine may be busy."""


@pytest.fixture
def source(nvml, machine) -> Iterator[Nvml]:
    one = Nvml(machine.proc, machine.sys, SystemClock(), limits=LIMITS)
    yield one
    one.close()


@pytest.fixture(scope="module")
def attached(nvml_mock, tmp_path_factory) -> Iterator[tuple[Any, Nvml]]:
    """Two GPUs and a source that has read them, for all tests that need no start of their own."""
    folder = tmp_path_factory.mktemp("attached")
    mock = nvml_mock.NvmlMock(nvml_mock.folder, folder / "nvml-state")
    mock.plug(2)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in mock.environment.items():
            patch.setenv(name, value)
        # Slow values with every reading.
        one = Nvml(folder / "proc", folder / "sys", SystemClock(), 0.001, LIMITS)
        one.read()
        yield mock, one
        one.close()


@pytest.fixture
def gpus(attached) -> Any:
    """The driver of `reader`; both GPUs are well."""
    mock, one = attached
    mock.heal()
    one.read()
    return mock


@pytest.fixture
def reader(gpus, attached) -> Nvml:
    return attached[1]


def values(reading):
    return {(s.metric.name, s.labels): s.value for s in collect(reading)}


def test_a_machine_without_the_library_has_no_source(machine, monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(library, "FOLDERS", ())
    source = Nvml(machine.proc, machine.sys, SystemClock(), search=list)

    assert not source.available()
    with pytest.raises(SourceError, match=r"libnvidia-ml\.so\.1 is not on this machine"):
        source.read()


def test_this_process_never_loads_nvml(reader):
    reader.read()

    assert "libnvidia-ml" not in Path("/proc/self/maps").read_text() or "pynvml" in sys.modules


def test_values_are_in_base_units(reader):
    reader.read()
    told = values(reader.read())

    expected = {
        (m.GPU_UP, ()): 1, (m.GPU_STALLED, ()): 0, (m.GPU_UTILIZATION, ()): 0.97,
        (m.GPU_COPY_UTILIZATION, ()): 0.41, (m.GPU_TENSOR_ACTIVE, ()): 0.525,
        (m.GPU_MEMORY_TOTAL, ()): 80 << 30, (m.GPU_MEMORY_RESERVED, ()): 1 << 29,
        (m.GPU_TEMPERATURE, ("gpu",)): 61, (m.GPU_TEMPERATURE, ("memory",)): 66,
        (m.GPU_TEMPERATURE_MARGIN, ()): 26, (m.GPU_TEMPERATURE_LIMIT, ("slowdown",)): 90,
        (m.GPU_TEMPERATURE_LIMIT_MARGIN, ("shutdown",)): -8,
        (m.GPU_POWER, ()): 655.25, (m.GPU_POWER_AVERAGE, ()): 650,
        (m.GPU_POWER_LIMIT, ("enforced",)): 700, (m.GPU_ENERGY, ()): 123456.789,
        (m.GPU_CLOCK, ("sm",)): 1.98e9, (m.GPU_CLOCK_MAX, ("mem",)): 2.619e9,
        (m.GPU_CLOCK_EVENT_SECONDS, ("sw_power_cap",)): 12.5,
        (m.GPU_CLOCK_EVENT_ACTIVE, ("sw_power_cap",)): 1,
        (m.GPU_CLOCK_EVENT_ACTIVE, ("hw_thermal",)): 0,
        (m.GPU_ECC_ERRORS, ("corrected", "volatile")): 0,
        (m.GPU_ECC_LOCATION_ERRORS, ("uncorrected", "aggregate", "other")): 0,
        (m.GPU_ROW_REMAP_BANKS, ("max",)): 640, (m.GPU_PCIE_WIDTH, ()): 16,
        (m.GPU_PCIE_GENERATION_MAX, ()): 5, (m.GPU_PCIE_BYTES, ("transmit",)): 1 << 40,
        (m.GPU_NVLINK_UP, ("17",)): 1, (m.GPU_NVLINK_BYTES, ("transmit",)): 1 << 40,
        (m.GPU_NVLINK_ERRORS, ("other", "dl_crc")): 0, (m.GPU_FABRIC_STATE, ("completed",)): 1,
        (m.GPU_FABRIC_HEALTHY, ()): 1, (m.GPU_RECOVERY_ACTION, ()): 0, (m.GPU_PROCESSES, ()): 1,
    }  # fmt: skip
    assert expected == {
        (metric, labels): told.get((metric.name, (*FIRST, *labels))) for metric, labels in expected
    }


def test_the_identity_is_complete(reader):
    told = values(reader.read())
    (info,) = [labels for name, labels in told if name == m.GPU_INFO.name and labels[:2] == FIRST]

    assert dict(zip(m.GPU_INFO.labels, info, strict=True)) == {
        "gpu": "0", "uuid": "GPU-0", "model": "NVIDIA H100 80GB HBM3", "driver": "550.54.15",
        "simulated": "false", "serial": "1654321000", "pci_bus_id": "00000000:18:00.0",
        "vbios": "96.00.74.00.01", "firmware": "550.54.15", "cuda": "12.4", "mig_mode": "off",
        "numa": "0", "minor": "0",
    }  # fmt: skip


def test_what_is_not_supported_is_absent_and_zero_is_a_value(gpus, reader, nvml_mock):
    gpus.gpu(0).field_rc[186] = nvml_mock.NOT_SUPPORTED
    gpus.fails(0, "nvmlDeviceGetPowerUsage", nvml_mock.NOT_SUPPORTED)
    gpus.fails(0, "nvmlDeviceGetUtilizationRates", nvml_mock.NOT_SUPPORTED)
    gpus.gpu(1).util_gpu = 0
    reading = reader.read()
    told = values(reading)

    assert (m.GPU_POWER.name, FIRST) not in told
    assert (m.GPU_UTILIZATION.name, FIRST) not in told
    assert told[m.GPU_UTILIZATION.name, ("1", "GPU-1")] == 0
    assert reading.rejected == ()


def test_a_call_that_fails_is_named_and_the_rest_stands(gpus, reader, nvml_mock):
    gpus.fails(0, "nvmlDeviceGetUtilizationRates", nvml_mock.NO_PERMISSION)
    reading = reader.read()

    assert [one.reason for one in reading.rejected] == ["no_permission"]
    assert (m.GPU_UTILIZATION.name, FIRST) not in values(reading)
    assert (m.GPU_POWER.name, FIRST) in values(reading)


def test_instant_power_that_an_old_driver_lacks_comes_from_the_old_call(gpus, reader, nvml_mock):
    gpus.gpu(0).field_rc[186] = nvml_mock.NOT_SUPPORTED

    assert values(reader.read())[m.GPU_POWER.name, FIRST] == 655


def test_old_drivers_without_the_newer_calls_still_tell(gpus, reader):
    for name in ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetMemoryInfo_v2"):
        gpus.fails(0, name, 13)
    told = values(reader.read())

    assert told[m.GPU_TEMPERATURE.name, (*FIRST, "gpu")] == 61
    assert told[m.GPU_MEMORY_TOTAL.name, FIRST] == 80 << 30
    assert (m.GPU_MEMORY_RESERVED.name, FIRST) not in told


@pytest.mark.timed
@pytest.mark.parametrize("code", [15, 16])
def test_a_lost_gpu_leaves_no_value_but_that_it_is_down(gpus, reader, code):
    reader.read()
    gpus.gpu(0).every_rc = code
    with slowness() as machine:
        before = time.monotonic()
        told = values(reader.read())
        took = time.monotonic() - before

    assert took < 2 * machine.factor
    assert {key: value for key, value in told.items() if key[1][:1] == ("0",)} == {
        (m.GPU_UP.name, FIRST): 0,
        (m.GPU_STALLED.name, FIRST): 0,
    }
    assert told[m.GPU_UP.name, ("1", "GPU-1")] == 1


def test_a_gpu_that_may_not_be_opened_is_down_and_the_reason_counted(nvml, source, nvml_mock):
    nvml.gpu(0).handle_rc = nvml_mock.NO_PERMISSION
    reading = source.read()

    assert [(gpu.index, gpu.up) for gpu in reading.gpus] == [(0, False), (1, True)]
    assert [one.reason for one in reading.rejected] == ["no_permission"]


def test_a_gpu_that_is_lost_in_one_field_only_is_lost(gpus, reader, nvml_mock):
    reader.read()
    gpus.gpu(0).field_rc[186] = nvml_mock.GPU_IS_LOST

    assert values(reader.read())[m.GPU_UP.name, FIRST] == 0


def test_a_gpu_that_was_lost_at_the_start_comes_without_restart(nvml, source, nvml_mock):
    nvml.gpu(0).handle_rc = nvml_mock.GPU_IS_LOST
    down = values(source.read())
    nvml.gpu(0).handle_rc = 0
    up = values(source.read())

    assert down[m.GPU_UP.name, ("0", "")] == 0
    assert up[m.GPU_UP.name, FIRST] == 1
    assert (m.GPU_UP.name, ("0", "")) not in up


def test_a_new_gpu_comes_without_restart(nvml, source):
    source.read()
    nvml.plug(4)
    more = {gpu.uuid for _ in range(2) for gpu in source.read().gpus}

    assert more == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}


def test_mig_devices_come_and_go_with_their_own_values(nvml, source):
    source.read()
    nvml.partition(1, 2)
    source.read()
    source.read()
    told = values(source.read())
    nvml.partition(1, 0)
    source.read()
    after = values(source.read())

    first, second = (("1", f"MIG-1-{number}") for number in (0, 1))
    parent = ("GPU-1", "1g.10gb", "8", "0")
    assert told[m.MIG_INFO.name, (*second, *parent)] == 1
    assert told[m.GPU_MEMORY_USED.name, second] == 1 << 30
    assert told[m.GPU_MEMORY_USED.name, first] == 0
    assert told[m.GPU_TENSOR_ACTIVE.name, second] == 0.1
    assert (m.GPU_UTILIZATION.name, ("1", "GPU-1")) not in told
    assert not [labels for _, labels in after if any("MIG" in label for label in labels)]


def test_every_reason_is_told_by_its_bit(gpus, reader):
    gpus.gpu(0).reasons = 0x20 | 0x40
    told = values(reader.read())

    on = {r for r in CLOCK_EVENT_BITS if told[m.GPU_CLOCK_EVENT_ACTIVE.name, (*FIRST, r)]}
    assert on == {"sw_thermal", "hw_thermal"}


def test_throttling_between_two_readings_is_in_the_counter(gpus, reader):
    reader.read()
    gpus.field(0, 270, 250_000_000)  # throttled for a quarter of a second, and over again

    assert values(reader.read())[m.GPU_CLOCK_EVENT_SECONDS.name, (*FIRST, "hw_thermal")] == 0.25


def test_the_links_of_nvlink_5_are_summed_or_told_apart(nvml, source, nvml_mock):
    for number in (138, 139):
        nvml.gpu(0).field_rc[number] = nvml_mock.NOT_SUPPORTED
    for number in (202, 204, 206, 219, 220):
        nvml.field(0, number, 0)
    nvml.field(0, 202, 1 << 40)
    nvml.gpu(0).link_field[3][206] = 5
    nvml.gpu(0).link_field[4][206] = 2
    nvml.gpu(0).link_field[7][219] = 9
    nvml.gpu(0).link_field[7][220] = 4 << 8 | 12
    told = values(source.read())

    assert told[m.GPU_NVLINK_BYTES.name, (*FIRST, "transmit")] == 1 << 40
    assert told[m.GPU_NVLINK_ERRORS.name, (*FIRST, "all", "malformed_packet")] == 7
    assert told[m.GPU_NVLINK_ERRORS.name, (*FIRST, "7", "effective")] == 9
    assert told[m.GPU_NVLINK_BER.name, (*FIRST, "7", "effective")] == pytest.approx(4e-12)


def test_a_degraded_fabric_is_not_healthy(gpus, reader):
    gpus.gpu(0).fabric_health = 1  # degraded bandwidth: true
    gpus.gpu(1).fabric_state = 2
    told = values(reader.read())

    assert told[m.GPU_FABRIC_HEALTHY.name, FIRST] == 0
    assert told[m.GPU_FABRIC_STATE.name, (*FIRST, "completed")] == 1
    assert told[m.GPU_FABRIC_HEALTHY.name, ("1", "GPU-1")] == 0
    assert told[m.GPU_FABRIC_STATE.name, ("1", "GPU-1", "in_progress")] == 1


def test_gpus_on_the_bus_are_counted_without_the_driver(machine, source):
    for slot, vendor, kind in (
        ("18", "0x10de", "0x030200"),
        ("19", "0x10de", "0x030000"),
        ("1a", "0x10de", "0x068000"),  # an NVSwitch
        ("1b", "0x8086", "0x030000"),
    ):
        device = machine.sys / "bus/pci/devices" / f"0000:{slot}:00.0"
        machine.file(device / "vendor", f"{vendor}\n")
        machine.file(device / "class", f"{kind}\n")

    virtual = machine.sys / "bus/pci/devices/0000:18:00.4"  # SR-IOV: a part of the first
    for name, word in (("vendor", "0x10de"), ("class", "0x030200"), ("physfn/vendor", "0x10de")):
        machine.file(virtual / name, f"{word}\n")

    reading = source.read()

    assert (reading.expected, reading.present) == (2, 2)


def test_a_driver_that_does_not_fit_its_library_is_named_with_both_versions(
    nvml, machine, nvml_mock, tmp_path
):
    folder = tmp_path / "lib"
    folder.mkdir()
    shutil.copy(nvml.path, folder / "libnvidia-ml.so.550.54.15")
    (folder / library.NAME).symlink_to("libnvidia-ml.so.550.54.15")
    machine.file(
        machine.proc / "driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  545.23.08  Mon Nov  6 23:49:37 UTC 2023\n",
    )
    nvml.state.init_rc = nvml_mock.MISMATCH
    source = Nvml(
        machine.proc, machine.sys, SystemClock(), limits=LIMITS,
        search=lambda: [folder / library.NAME],
    )  # fmt: skip

    with pytest.raises(SourceError, match=r"550\.54\.15 does not fit .* 545\.23\.08") as caught:
        source.read()

    assert caught.value.reason == "lib_rm_version_mismatch"
    source.close()


def test_a_missing_permission_is_named(nvml, source, nvml_mock):
    nvml.state.init_rc = nvml_mock.NO_PERMISSION

    with pytest.raises(SourceError, match=f"user {os.geteuid()} may not open /dev/nvidiactl"):
        source.read()


def test_a_driver_that_is_loaded_later_is_found_without_restart(nvml, source, machine):
    nvml.state.init_rc = 9
    with pytest.raises(SourceError, match="load the driver"):
        source.read()
    with pytest.raises(SourceError, match="load the driver"):  # waits before it tries again
        source.read()

    nvml.state.init_rc = 0
    (machine.proc / "driver/nvidia/gpus/0000:18:00.0").mkdir(parents=True)

    assert len(source.read().gpus) == 2


def test_a_driver_that_is_unloaded_ends_in_an_error_and_not_in_old_values(nvml, source):
    source.read()
    nvml.gpu(0).every_rc = 1  # UNINITIALIZED
    nvml.state.init_rc = 9
    with pytest.raises(SourceError, match=r"load the driver|uninitialized"):
        source.read()


def test_of_two_copies_of_the_library_the_first_is_used_and_both_are_named(nvml, machine, tmp_path):
    other = tmp_path / "other" / library.NAME
    other.parent.mkdir()
    shutil.copy(nvml.path, other)
    source = Nvml(
        machine.proc, machine.sys, SystemClock(), limits=LIMITS, search=lambda: [nvml.path, other]
    )
    first, second = source.read(), source.read()
    source.close()

    (rejected,) = first.rejected
    assert rejected.reason == "two_libraries"
    assert str(nvml.path) in rejected.message
    assert str(other) in rejected.message
    assert second.rejected == ()
    assert len(second.gpus) == 2


def test_two_names_of_one_library_are_one_copy(nvml, tmp_path):
    (tmp_path / library.NAME).symlink_to(nvml.path)

    found = library.search({"LD_LIBRARY_PATH": f"{nvml.library_folder}:{tmp_path}"}, ())

    assert found == [nvml.path]


def test_every_value_has_the_labels_of_its_metric(nvml, source):
    nvml.partition(1, 1)
    source.read()
    source.read()
    wrong = [s for s in collect(source.read()) if len(s.labels) != len(s.metric.labels)]

    assert wrong == []
