import pytest
from prometheus_client.parser import text_string_to_metric_families

from lockstep.collector.contract import metrics as m
from lockstep.collector.exporter.dcgm_page import render_legacy
from lockstep.collector.readings.gpu import Gpu, GpuReading
from lockstep.collector.samples.gpu import collect

GPU = ("0", "GPU-a")
MIG = ("0", "MIG-b")


def info(**more) -> m.Sample:
    known = {
        "gpu": "0", "uuid": "GPU-a", "model": "NVIDIA H100", "driver": "570.1",
        "pci_bus_id": "00000000:18:00.0", "minor": "3",
    } | more  # fmt: skip
    return m.GPU_INFO(1, *(known.get(name, "") for name in m.GPU_INFO.labels))


def parsed(*samples) -> dict:
    families = text_string_to_metric_families(render_legacy(samples))
    # The parser names a counter's samples as OpenMetrics does.
    return {
        sample.name.removesuffix("_total"): sample
        for family in families
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("sample", "name", "value"),
    [
        (m.GPU_CLOCK(1.98e9, *GPU, "sm"), "DCGM_FI_DEV_SM_CLOCK", 1980),
        (m.GPU_MEMORY_USED(3 << 20, *GPU), "DCGM_FI_DEV_FB_USED", 3),
        (m.GPU_UTILIZATION(0.875, *GPU), "DCGM_FI_DEV_GPU_UTIL", 87.5),
        (m.GPU_ENERGY(12.5, *GPU), "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 12500),
        (m.GPU_TEMPERATURE(71, *GPU, "memory"), "DCGM_FI_DEV_MEMORY_TEMP", 71),
        (m.GPU_TENSOR_ACTIVE(0.0, *GPU), "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0),
        (m.GPU_POWER(500.5, *GPU), "DCGM_FI_DEV_POWER_USAGE", 500.5),
        (m.GPU_CLOCK_EVENT_ACTIVE(1, *GPU, "hw_thermal"), "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 64),
    ],
)
def test_values_are_in_dcgms_units(sample, name, value):
    assert value == parsed(sample)[name].value


def test_the_average_power_stands_before_the_present_one():
    samples = parsed(m.GPU_POWER(500.0, *GPU), m.GPU_POWER_AVERAGE(480.0, *GPU))

    assert 480.0 == samples["DCGM_FI_DEV_POWER_USAGE"].value


def test_labels_are_those_of_dcgm_exporter():
    node = m.NODE_INFO(1, "gpu-07", "6.1", "b", "false")

    assert {
        "gpu": "0", "UUID": "GPU-a", "pci_bus_id": "00000000:18:00.0", "device": "nvidia3",
        "modelName": "NVIDIA H100", "Hostname": "gpu-07", "DCGM_FI_DRIVER_VERSION": "570.1",
    } == parsed(m.GPU_POWER(1.0, *GPU), info(), node)["DCGM_FI_DEV_POWER_USAGE"].labels  # fmt: skip


def test_a_mig_device_has_its_parents_labels_and_its_own():
    mig = {"parent": "GPU-a", "profile": "1g.10gb", "gpu_instance": "7", "compute_instance": "0"}
    about = m.MIG_INFO(1, *MIG, *(mig[name] for name in m.MIG_INFO.labels[2:]))
    labels = parsed(m.GPU_SM_ACTIVE(0.5, *MIG), about, info())["DCGM_FI_PROF_SM_ACTIVE"].labels

    assert ("GPU-a", "1g.10gb", "7", "NVIDIA H100") == (
        labels["UUID"], labels["GPU_I_PROFILE"], labels["GPU_I_ID"], labels["modelName"]
    )  # fmt: skip


def test_what_is_no_gpu_is_not_on_the_page():
    assert "" == render_legacy([m.HOST_CPUS(4), m.RANK_UP(1, "run", "0")])


def test_sums_over_links_are_told_at_0_and_what_links_count_is_not_taken_for_them():
    told = {"all/crc_flit": 0, "all/replay": 3, "4/dl_crc": 2, "5/dl_crc": 0}
    gpu = Gpu(0, "GPU-a", values={m.GPU_NVLINK_ERRORS.name: told})

    assert {
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": 0,
        "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": 3,
    } == {name: one.value for name, one in parsed(*collect(GpuReading((gpu,)))).items()}
