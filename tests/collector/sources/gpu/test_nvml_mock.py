"""Our libnvidia-ml is what the real nvidia-ml-py expects, and what the collector asks is in it."""

import ctypes
import json
import subprocess
import sys

import pytest

pynvml = pytest.importorskip("pynvml")

STRUCTS = (
    "c_nvmlFieldValue_t", "c_nvmlUtilization_t", "c_nvmlMemory_t", "c_nvmlMemory_v2_t",
    "c_nvmlTemperature_v1_t", "c_nvmlMarginTemperature_v1_t", "nvmlPciInfo_t",
    "c_nvmlRowRemapperHistogramValues", "c_nvmlEccSramErrorStatus_v1_t",
    "c_nvmlGpuFabricInfo_v2_t", "c_nvmlGpmSupport_t", "c_nvmlGpmMetric_t", "c_nvmlGpmMetricsGet_t",
    "c_nvmlProcessInfo_v3_t", "c_nvmlEventData_t",
)  # fmt: skip


@pytest.mark.parametrize("name", STRUCTS)
def test_a_struct_has_the_size_of_nvidias(nvml, name):
    assert ctypes.sizeof(getattr(pynvml, name)) == nvml.library().mock_sizeof(name.encode())


def test_both_sides_know_the_state_alike(nvml, nvml_mock):
    for name, struct in (
        ("state", nvml_mock.State), ("gpu", nvml_mock.GpuState), ("mig", nvml_mock.MigState),
        ("event", nvml_mock.Event),
    ):  # fmt: skip
        assert ctypes.sizeof(struct) == nvml.library().mock_sizeof(name.encode())


@pytest.mark.parametrize(
    ("name", "version", "word"),
    [
        ("c_nvmlMemory_v2_t", 2, "nvmlMemory_v2"),
        ("c_nvmlTemperature_v1_t", 1, "nvmlTemperature_v1"),
        ("c_nvmlMarginTemperature_v1_t", 1, "nvmlMarginTemperature_v1"),
        ("c_nvmlEccSramErrorStatus_v1_t", 1, "nvmlEccSramErrorStatus_v1"),
        ("c_nvmlGpuFabricInfo_v2_t", 2, "nvmlGpuFabricInfo_v2"),
    ],
)
def test_a_version_word_is_the_size_and_the_version(name, version, word):
    assert ctypes.sizeof(getattr(pynvml, name)) | version << 24 == getattr(pynvml, word)


def test_the_version_of_the_memory_struct_is_nvidias():
    from lockstep.collector.sources.gpu.nvml.device import MEMORY_V2

    assert pynvml.nvmlMemory_v2 == MEMORY_V2


def test_the_layout_of_a_field_value_is_nvidias():
    from lockstep.collector.sources.gpu.nvml.binding import FIELD_VALUE

    assert ctypes.sizeof(pynvml.c_nvmlFieldValue_t) == FIELD_VALUE.size


ASKS_EVERYTHING = """
import json, time, pynvml
from lockstep.collector.sources.gpu.nvml import binding
from lockstep.collector.sources.gpu.nvml import device
from lockstep.collector.sources.gpu.nvml import xid_watch
xid_watch.WAIT_SECONDS = 0.01
binding.load(None)
for index in (0, 1):
    one = device.Device(index)
    one.learn(), one.gpu.identity(), one.gpu.changed(), one.fast(), one.fast(), one.slow()
    for part in one.gpu.migs:
        one.fast_mig(part), one.fast_mig(part)
    failures = one.failures() | one.gpu.close()
    said = []
    watch = xid_watch.XidWatch(said.append)
    watch.add(index, one.gpu.handle, {"bus": "", "uuid": ""})
    time.sleep(0.1)
missing = []
for name in list(pynvml._nvmlGetFunctionPointer_cache):
    if not hasattr(pynvml.nvmlLib, name):
        missing.append(name)
print(json.dumps([missing, sorted(pynvml._nvmlGetFunctionPointer_cache), [failures, said]]))
"""


def test_everything_the_collector_asks_exists_in_nvidia_ml_py_and_in_the_mock(nvml):
    nvml.partition(1, 2)
    # A name that nvidia-ml-py lacks raises AttributeError there.
    done = subprocess.run(
        [sys.executable, "-c", ASKS_EVERYTHING], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    missing, asked, failures = json.loads(done.stdout)

    assert (missing, failures) == ([], [{}, []])
    assert {
        "nvmlDeviceGetFieldValues", "nvmlGpmMetricsGet", "nvmlGpmMigSampleGet", "nvmlGpmSampleFree",
        "nvmlEventSetWait_v2",
    } <= set(asked)  # fmt: skip
