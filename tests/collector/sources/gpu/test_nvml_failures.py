"""Calls that fail at one moment or for one GPU: what is lost with them, and what comes back."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.source import SourceError
from lockstep.collector.samples.gpu import collect
from lockstep.collector.sources.gpu.nvml.source import MAX_KNOWN, Limits, Nvml, Roster

pytestmark = pytest.mark.timed

pytest.importorskip("pynvml")
FIRST = ("0", "GPU-0")
UNKNOWN, NOT_FOUND, COUNT, TRANSMIT = 999, 28, 91, 138


@pytest.fixture
def source(nvml, machine) -> Iterator[Nvml]:
    """Slow values with every reading."""
    limits = Limits(answer=60.0, start=60.0, stall=120.0, kill=240.0, attach=240.0)
    one = Nvml(machine.proc, machine.sys, SystemClock(), 0.001, limits)
    yield one
    one.close()


def values(reading) -> dict:
    return {(s.metric.name, s.labels): s.value for s in collect(reading)}


def up(reading) -> dict[str, bool]:
    return {gpu.uuid: gpu.up for gpu in reading.gpus}


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds
        time.sleep(0.02)


def test_links_that_cannot_be_counted_at_first_are_counted_later(nvml, source):
    nvml.gpu(0).field_rc[COUNT] = UNKNOWN
    before = source.read()
    nvml.gpu(0).field_rc[COUNT] = 0
    source.read()
    after = source.read()

    assert {one.reason for one in before.rejected} == {"unknown"}
    assert (m.GPU_NVLINK_UP.name, (*FIRST, "0")) not in values(before)
    assert values(before)[m.GPU_POWER.name, FIRST] == 655.25
    assert values(after)[m.GPU_NVLINK_UP.name, (*FIRST, "17")] == 1
    assert values(after)[m.GPU_NVLINK_BYTES.name, (*FIRST, "transmit")] == 1 << 40
    assert after.rejected == ()


def test_traffic_that_fails_at_first_is_not_taken_for_the_next_generations(nvml, source):
    nvml.gpu(0).field_rc[TRANSMIT] = UNKNOWN
    before = source.read()
    nvml.gpu(0).field_rc[TRANSMIT] = 0
    source.read()
    after = values(source.read())

    assert {one.reason for one in before.rejected} == {"unknown"}
    assert after[m.GPU_NVLINK_BYTES.name, (*FIRST, "transmit")] == 1 << 40


def test_a_call_for_fields_that_fails_as_a_whole_costs_the_fields(nvml, source):
    nvml.fails(0, "nvmlDeviceGetFieldValues", UNKNOWN)
    reading = source.read()
    told = values(reading)

    assert up(reading) == {"GPU-0": True, "GPU-1": True}
    assert "unknown" in {one.reason for one in reading.rejected}
    assert told[m.GPU_POWER.name, FIRST] == 655  # the call that older drivers have
    assert told[m.GPU_TEMPERATURE.name, (*FIRST, "gpu")] == 61


def test_a_word_of_the_identity_that_fails_is_counted_and_comes_later(nvml, source, nvml_mock):
    nvml.fails(0, "nvmlDeviceGetSerial", nvml_mock.NO_PERMISSION)
    before = source.read()
    nvml.fails(0, "nvmlDeviceGetSerial", 0)
    source.read()
    after = source.read()

    assert {one.reason for one in before.rejected} == {"no_permission"}
    assert "serial" not in before.gpus[0].info
    assert before.gpus[0].info["model"] == "NVIDIA H100 80GB HBM3"
    assert after.gpus[0].info["serial"] == "1654321000"
    assert after.rejected == ()


def test_a_name_that_is_no_text_costs_the_name(nvml, source):
    nvml.gpu(0).serial = b"\xff\xfe"
    reading = source.read()

    assert up(reading) == {"GPU-0": True, "GPU-1": True}
    assert "serial" not in reading.gpus[0].info
    assert {one.reason for one in reading.rejected} == {"corrupted_inforom"}


def test_a_gpu_whose_uuid_fails_is_down_and_the_reason_counted(nvml, source):
    nvml.fails(0, "nvmlDeviceGetUUID", UNKNOWN)
    reading = source.read()
    nvml.fails(0, "nvmlDeviceGetUUID", 0)

    assert values(reading)[m.GPU_UP.name, ("0", "")] == 0
    assert {one.reason for one in reading.rejected} == {"unknown"}
    assert up(source.read()) == {"GPU-0": True, "GPU-1": True}


@pytest.mark.parametrize("function", ["nvmlDeviceGetMigMode", "nvmlDeviceGetUUID"])
def test_a_question_for_changes_that_fails_is_no_change(nvml, source, function):
    nvml.partition(1, 2)
    source.read()
    child = source._child._process
    nvml.fails(1, function, UNKNOWN)
    reading = source.read()

    assert source._child._process is child
    assert up(reading)["MIG-1-1"]
    assert "unknown" in {one.reason for one in reading.rejected}


def test_mig_devices_that_cannot_be_listed_at_first_come_later(nvml, source):
    nvml.partition(1, 2)
    nvml.fails(1, "nvmlDeviceGetMigMode", UNKNOWN)
    before = source.read()
    nvml.fails(1, "nvmlDeviceGetMigMode", 0)

    until(lambda: up(source.read()) == dict.fromkeys(
        ("GPU-0", "GPU-1", "MIG-1-0", "MIG-1-1"), True
    ))  # fmt: skip
    assert up(before) == {"GPU-0": True, "GPU-1": True}
    assert {one.reason for one in before.rejected} == {"unknown"}


def test_a_gpu_that_is_not_found_is_lost_alone(nvml, source):
    source.read()
    child = source._child._process
    nvml.gpu(0).every_rc = NOT_FOUND
    reading = source.read()

    assert up(reading) == {"GPU-0": False, "GPU-1": True}
    assert source._child._process is child


def test_a_count_that_fails_means_that_the_driver_is_gone(nvml, source):
    source.read()
    nvml.state.count_rc = nvml.state.init_rc = 9

    with pytest.raises(SourceError, match="load the driver"):
        source.read()


def test_activity_after_a_sample_that_failed_is_over_the_time_since_the_last_good_one(nvml, source):
    source.read()
    source.read()
    nvml.fails(0, "nvmlGpmSampleGet", UNKNOWN)
    failed = source.read()
    nvml.fails(0, "nvmlGpmSampleGet", 0)
    after = source.read()

    assert (m.GPU_TENSOR_ACTIVE.name, FIRST) not in values(failed)
    assert values(after)[m.GPU_TENSOR_ACTIVE.name, FIRST] == 0.525
    assert nvml.gpu(0).gpm_window == 1


def test_activity_that_is_no_number_is_absent(nvml, source):
    nvml.gpu(0).gpm[5] = float("nan")
    source.read()
    told = values(source.read())

    assert (m.GPU_TENSOR_ACTIVE.name, FIRST) not in told
    assert told[m.GPU_SM_ACTIVE.name, FIRST] == 0.88


def test_errors_of_links_that_are_not_available_are_not_added_up(nvml, source):
    nvml.field(0, 206, -1)  # NVML_VALUE_NOT_AVAILABLE
    told = values(source.read())

    assert (m.GPU_NVLINK_ERRORS.name, (*FIRST, "all", "malformed_packet")) not in told


OLD_DRIVER = """
import pynvml
from lockstep.collector.sources.gpu.nvml import binding
from lockstep.collector.sources.gpu.nvml import device
binding.load(None)
real = pynvml.nvmlLib
class Old:
    def __getattr__(self, name):
        if name == "nvmlDeviceGetFieldValues":
            raise AttributeError(name)
        return getattr(real, name)
pynvml.nvmlLib = Old()
pynvml._nvmlGetFunctionPointer_cache.clear()
gpu = device.Device(0)
gpu.learn()
print(gpu.fast()["lockstep_gpu_power_watts"], gpu.failures())
"""


def test_a_driver_that_has_no_fields_still_tells(nvml):
    done = subprocess.run(
        [sys.executable, "-c", OLD_DRIVER], capture_output=True, text=True, timeout=240
    )

    assert (done.stdout, done.stderr) == ("{'': 655.0} {}\n", "")


def test_a_gpu_that_vanished_stays_on_the_page_as_down_until_it_returns(nvml, source):
    nvml.plug(3)
    source.read()
    nvml.state.count = 2  # gone from the driver and from the bus
    until(lambda: source.read().present == 2)
    gone = source.read()
    told = {key: value for key, value in values(gone).items() if "GPU-2" in key[1]}
    nvml.state.count = 3
    until(lambda: source.read().present == 3)
    back = source.read()

    assert told == {(m.GPU_UP.name, ("2", "GPU-2")): 0, (m.GPU_STALLED.name, ("2", "GPU-2")): 0}
    assert (gone.expected, gone.present) == (3, 2)
    assert up(back) == {"GPU-0": True, "GPU-1": True, "GPU-2": True}


def test_when_a_gpu_in_the_middle_vanishes_no_other_is_told_as_down(nvml, source, nvml_mock):
    nvml.plug(3)
    source.read()
    nvml.gpu(1).uuid, nvml.gpu(1).bus_id = b"GPU-2", b"00000000:1A:00.0"
    nvml.state.count = 2
    seen: list[dict[str, bool]] = []

    def settled() -> bool:
        seen.append(up(source.read()))
        return source._present == 2 and len(seen[-1]) == 3

    until(settled)

    assert seen[-1] == {"GPU-0": True, "GPU-1": False, "GPU-2": True}
    assert not [one for one in seen if one.get("GPU-2") is False or one.get("GPU-0") is False]
    assert {gpu.uuid: gpu.index for gpu in source.read().gpus} == {
        "GPU-0": 0,
        "GPU-2": 1,
        "GPU-1": 1,
    }


def test_mig_devices_that_went_by_design_leave_no_trace(nvml, source):
    nvml.partition(1, 2)
    source.read()
    nvml.partition(1, 0)

    until(lambda: up(source.read()) == {"GPU-0": True, "GPU-1": True})


def test_another_version_of_the_driver_begins_with_what_it_finds(nvml, source, machine):
    version = machine.proc / "driver/nvidia/version"
    machine.file(version, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n")
    nvml.plug(3)
    source.read()
    machine.file(version, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.10.01  Tue\n")
    nvml.state.count = 2
    until(lambda: source.read().present == 2)
    reading = source.read()

    assert up(reading) == {"GPU-0": True, "GPU-1": True}
    assert reading.expected == 2


def test_a_driver_that_was_reloaded_still_misses_the_gpu_that_vanished(nvml, source, machine):
    version = machine.proc / "driver/nvidia/version"
    told = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n"
    machine.file(version, told)
    nvml.plug(3)
    source.read()
    version.unlink()
    nvml.state.count = 2
    source.read()
    machine.file(version, told)
    until(lambda: source.read().present == 2)

    assert up(source.read()) == {"GPU-0": True, "GPU-1": True, "GPU-2": False}


def test_gpus_that_the_kernel_finds_are_found_though_nvml_counts_only_once(nvml, source, machine):
    gpus = machine.proc / "driver/nvidia/gpus"
    (gpus / "0000:18:00.0").mkdir(parents=True)
    nvml.state.settled = 1
    before = source.read()
    nvml.plug(3)
    (gpus / "0000:1a:00.0").mkdir()
    after = source.read()

    assert (before.present, after.present) == (2, 3)
    assert up(after) == {"GPU-0": True, "GPU-1": True, "GPU-2": True}


def test_more_gpus_on_the_bus_than_ever_counted_are_expected():
    roster = Roster()
    roster.counted(2)

    assert [roster.expected(bus) for bus in (None, 0, 1, 4)] == [2, 2, 2, 4]
    assert Roster().expected(None) is None
    assert Roster().expected(0) == 0


def test_a_driver_that_renames_its_gpus_for_ever_fills_no_memory():
    roster = Roster()
    for number in range(MAX_KNOWN + 50):
        roster.saw(f"GPU-{number}", 0)
    roster.compare(set())

    assert len(list(roster.missing(set()))) == MAX_KNOWN
