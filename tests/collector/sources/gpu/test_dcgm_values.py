"""What DCGM's numbers mean, by field."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import METRICS
from lockstep.collector.readings.gpu import Gpu, GpuReading
from lockstep.collector.readings.source import IMPLAUSIBLE
from lockstep.collector.samples.counters import Counters, Falls
from lockstep.collector.samples.gpu import collect
from lockstep.collector.sources.dcgm_fields import DCGM_FIELDS, FIELD_IDS, PREFIX, RAW_FIELDS, known
from lockstep.collector.sources.dcgm_values import blank, checked, values
from lockstep.collector.sources.gpu.dcgm_exporter import DcgmExporter, parse

WHO = ("0", "GPU-a")


def told(fields: dict[int, float]) -> dict:
    reading = GpuReading((Gpu(0, "GPU-a", values=values(fields)),))
    return {(sample.metric, *sample.labels[2:]): sample.value for sample in collect(reading)}


@pytest.mark.parametrize(
    ("field", "number", "metric", "labels", "value"),
    [
        (240, 2e9, m.GPU_CLOCK_EVENT_SECONDS, ["sw_power_cap"], 2),
        (1420, 2e9, m.GPU_CLOCK_EVENT_SECONDS, ["sw_power_cap"], 2),
        (241, 1e9, m.GPU_CLOCK_EVENT_SECONDS, ["thermal"], 1),
        (1421, 1e9, m.GPU_CLOCK_EVENT_SECONDS, ["sync_boost"], 1),
        (1422, 5e8, m.GPU_CLOCK_EVENT_SECONDS, ["sw_thermal"], 0.5),
        (1423, 0, m.GPU_CLOCK_EVENT_SECONDS, ["hw_thermal"], 0),
        (1424, 1e9, m.GPU_CLOCK_EVENT_SECONDS, ["hw_power_brake"], 1),
        (346, 1, m.GPU_SRAM_THRESHOLD, [], 1),
        (170, 1, m.GPU_FABRIC_STATE, ["not_started"], 1),
        (170, 2, m.GPU_FABRIC_STATE, ["in_progress"], 1),
        (170, 3, m.GPU_FABRIC_HEALTHY, [], 1),
        (170, 4, m.GPU_FABRIC_HEALTHY, [], 0),
    ],
)
def test_a_field_is_its_metric_in_base_units(field, number, metric, labels, value):
    assert value == told({field: number})[metric, *labels]


def test_the_same_count_under_two_numbers_is_told_once():
    assert 2 == told({240: 2e9, 1420: 3e9})[m.GPU_CLOCK_EVENT_SECONDS, "sw_power_cap"]


@pytest.mark.parametrize(
    ("field", "value", "healthy"),
    [(174, 0x1AA, 1), (174, 0x19A, 0), (175, 0, 1), (175, 1, 1), (175, 2, 0), (175, 3, 0)],
)
def test_a_complaint_of_the_fabric_is_heard(field, value, healthy):
    assert healthy == told({170: 3, field: value})[(m.GPU_FABRIC_HEALTHY,)]


@pytest.mark.parametrize("status", [0, 5, 6, 7, 1.5])
def test_where_there_is_no_fabric_or_no_telling_nothing_is_said(status):
    assert (m.GPU_FABRIC_HEALTHY,) not in told({170: status, 175: 2})


@pytest.mark.parametrize(
    "value", [2147483632, 2147483635.0, 9223372036854775792, 9223372036854775794.0,
              140737488355328.0, 140737488355330.0],
)  # fmt: skip
def test_a_blank_value_is_none(value):
    assert blank(value)
    assert checked(150, value) is None


@settings(max_examples=100)
@given(st.sampled_from([100, 112, 156, 170]), st.one_of(st.integers(), st.floats()))
def test_what_is_checked_is_a_number_that_the_field_can_have(field, number):
    try:
        value = checked(field, number)
    except ValueError:
        return

    assert value is None or (math.isfinite(value) and (field != 156 or value >= 0))


def test_every_field_is_one_metric_and_every_name_one_field():
    names = [name for one in DCGM_FIELDS for name in one.names]
    names += [name for one in DCGM_FIELDS for also in one.also for name in also.names]
    series = [(one.metric.name, one.labels) for one in DCGM_FIELDS]

    assert len(set(names)) == len(names)
    numbers = [one.id for one in DCGM_FIELDS] + [number for number, _ in RAW_FIELDS]
    numbers += [also.id for one in DCGM_FIELDS for also in one.also]
    assert len(set(numbers)) == len(numbers)
    assert len(DCGM_FIELDS) == len(set(series))
    assert len(FIELD_IDS) == len(names) + sum(len(names) for _, names in RAW_FIELDS)
    assert all(len(one.labels) == len(one.metric.labels) - 2 for one in DCGM_FIELDS)
    assert all(METRICS[one.metric.name] is one.metric for one in DCGM_FIELDS)
    assert all(one.legacy.startswith(PREFIX) for one in DCGM_FIELDS)


# Names and units of dcgm-exporter 3.x to 4.9: each page is the same GPU in base units.

ENERGY = 123456.789
"""Joules."""


def labels(gpu: int = 0, host: str = "Hostname", driver: str = "DCGM_FI_DRIVER_VERSION") -> str:
    return (
        f'gpu="{gpu}",UUID="GPU-{gpu}",pci_bus_id="00000000:{gpu + 24:02X}:00.0",'
        f'device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",{host}="n1",{driver}="580.95.05"'
    )


def page_4_8(*, later: float = 0.0) -> str:
    """As dcgm-exporter 4.8 writes it: MHz, MiB, percent, millijoules, nanoseconds."""
    who = labels()
    return "".join(
        f"DCGM_FI_DEV_{name}{{{who}}} {value}\n"
        for name, value in (
            ("SM_CLOCK", 1980), ("MEM_CLOCK", 2619), ("VIDEO_CLOCK", 1545),
            ("MAX_SM_CLOCK", 1980), ("MAX_MEM_CLOCK", 2619), ("MAX_VIDEO_CLOCK", 1545),
            ("GPU_TEMP", 61), ("MEMORY_TEMP", 72), ("POWER_USAGE", "650.125000"),
            ("TOTAL_ENERGY_CONSUMPTION", round((ENERGY + later) * 1000)),
            ("GPU_UTIL", 97), ("MEM_COPY_UTIL", 41), ("ENC_UTIL", 0), ("DEC_UTIL", 0),
            ("POWER_VIOLATION", 2_500_000_100), ("THERMAL_VIOLATION", 1_000_000_000),
            ("SYNC_BOOST_VIOLATION", 0), ("BOARD_LIMIT_VIOLATION", 4_000_000_000),
            ("LOW_UTIL_VIOLATION", 5_000_000_000), ("RELIABILITY_VIOLATION", 0),
            ("TOTAL_APP_CLOCKS_VIOLATION", 6_000_000_000),
            ("TOTAL_BASE_CLOCKS_VIOLATION", 7_000_000_000),
            ("FB_TOTAL", 81559), ("FB_FREE", 16000), ("FB_USED", 65000), ("FB_RESERVED", 559),
            ("PCIE_REPLAY_COUNTER", 3), ("XID_ERRORS", 0),
        )
    )  # fmt: skip


def page_4_9(*, later: float = 0.0) -> str:
    """The same GPU as 4.9 writes it; integers stay integers, doubles have six decimals."""
    who = labels(host="hostname", driver="DCGM_FI_SYSTEM_DRIVER_VERSION")
    mib = 1 << 20
    return "".join(
        f"DCGM_FI_DEV_{name}{{{who}}} {value}\n"
        for name, value in (
            ("SM_CLOCK_HERTZ", 1_980_000_000), ("MEMORY_CLOCK_HERTZ", 2_619_000_000),
            ("VIDEO_CLOCK_HERTZ", 1_545_000_000), ("SM_MAX_CLOCK_HERTZ", 1_980_000_000),
            ("MEMORY_MAX_CLOCK_HERTZ", 2_619_000_000), ("VIDEO_MAX_CLOCK_HERTZ", 1_545_000_000),
            ("GPU_TEMP_CELSIUS", 61), ("MEMORY_TEMP_CELSIUS", 72),
            ("BOARD_POWER_WATTS", "650.125000"),
            ("GPU_ENERGY_JOULES_TOTAL", int(ENERGY + later)),
            ("GPU_UTIL_RATIO", "0.970000"), ("MEMORY_UTIL_RATIO", "0.410000"),
            ("ENC_UTIL_RATIO", "0.000000"), ("DEC_UTIL_RATIO", "0.000000"),
            ("GPU_POWER_THROTTLE_SECONDS_TOTAL", "2.500000"),
            ("GPU_THERMAL_THROTTLE_SECONDS_TOTAL", "1.000000"),
            ("GPU_SYNC_BOOST_THROTTLE_SECONDS_TOTAL", "0.000000"),
            ("GPU_LIMIT_THROTTLE_SECONDS_TOTAL", "4.000000"),
            ("GPU_LOW_UTIL_THROTTLE_SECONDS_TOTAL", "5.000000"),
            ("GPU_RELIABILITY_THROTTLE_SECONDS_TOTAL", "0.000000"),
            ("GPU_APP_THROTTLE_SECONDS_TOTAL", "6.000000"),
            ("GPU_BASE_THROTTLE_SECONDS_TOTAL", "7.000000"),
            ("FB_CAPACITY_BYTES", 81559 * mib), ("FB_FREE_BYTES", 16000 * mib),
            ("FB_USED_BYTES", 65000 * mib), ("FB_RESERVED_BYTES", 559 * mib),
            ("PCIE_REPLAY_TOTAL", 3), ("XID_ERROR", 0), ("FAN_SPEED_RATIO", "0.300000"),
            ("BAR1_USED_BYTES", mib), ("NVLINK_THROUGHPUT_L3_BYTES_PER_SECOND", 0),
            ("NVLINK_THROUGHPUT_BYTES_PER_SECOND", 0), ("SM_APP_CLOCK_HERTZ", 1_980_000_000),
        )
    )  # fmt: skip


def told_by_version(text: str) -> dict:
    reading = parse(text)
    assert () == reading.rejected
    return {(s.metric.name, *s.labels): s.value for s in collect(reading)}


def test_the_page_of_4_9_is_the_gpu_that_4_8_told():
    old, new = told_by_version(page_4_8()), told_by_version(page_4_9())

    assert old.keys() == new.keys()
    assert {key: pytest.approx(value, abs=1) for key, value in old.items()} == new
    assert 1.98e9 == new[m.GPU_CLOCK.name, "0", "GPU-0", "sm"]
    assert 0.97 == new[m.GPU_UTILIZATION.name, "0", "GPU-0"]
    assert 2.5 == new[m.GPU_CLOCK_EVENT_SECONDS.name, "0", "GPU-0", "sw_power_cap"]
    assert "580.95.05" == next(key[4] for key in new if key[0] == m.GPU_INFO.name)


@pytest.mark.parametrize("text", [page_4_8(), page_4_9()])
def test_every_name_of_both_is_known(text):
    assert frozenset() == parse(text).unknown_names


def test_an_exporter_that_is_upgraded_in_mid_run_makes_no_counter_jump():
    counters = Counters(Falls.CARRY)
    pages = [
        page_4_8(), page_4_8(later=5), page_4_9(later=5), page_4_9(later=12), page_4_9(later=900),
        page_4_8(later=900.9), page_4_9(later=901),
    ]  # fmt: skip
    energy, throttled = [], []
    for page in pages:
        passed = {(s.metric.name, *s.labels[2:]): s.value
                  for s in counters.through(collect(parse(page)))}  # fmt: skip
        energy.append(passed[(m.GPU_ENERGY.name,)])
        throttled.append(passed[m.GPU_CLOCK_EVENT_SECONDS.name, "sw_power_cap"])

    assert sorted(energy) == energy
    assert pytest.approx(901, abs=2) == energy[-1] - energy[0]
    assert [pytest.approx(2.5)] * len(pages) == throttled


def test_a_reset_of_the_driver_is_still_carried():
    counters = Counters(Falls.CARRY)
    for text in (page_4_9(later=0), page_4_9(later=100 - ENERGY)):
        passed = {s.metric.name: s.value for s in counters.through(collect(parse(text)))}

    assert passed[m.GPU_ENERGY.name] == pytest.approx(ENERGY + 100, abs=1)


def test_the_gpu_of_an_upgraded_exporter_is_not_lost(clock):
    source = DcgmExporter("http://x", clock)
    source.with_lost(parse(page_4_8()))
    clock.sleep(1)

    assert [True] == [gpu.up for gpu in source.with_lost(parse(page_4_9())).gpus]


def utilization(*values: str, beside: str = "") -> list[float | None]:
    page = "".join(
        f"DCGM_FI_DEV_GPU_UTIL_RATIO{{{labels(gpu)}}} {value}\n"
        f"DCGM_FI_DEV_GPU_TEMP{{{labels(gpu)}}} 40\n"
        for gpu, value in enumerate(values)
    )
    gpus = parse(page + beside.format(labels())).gpus
    return [gpu.value(m.GPU_UTILIZATION.name) for gpu in gpus]


OF_4_6 = "DCGM_FI_DEV_SM_CLOCK_HERTZ{{{0}}} 1980000000\n"
OF_4_7 = "DCGM_FI_DEV_FB_USED_BYTES{{{0}}} 1048576\n"


@pytest.mark.parametrize(
    ("values", "beside", "shares"),
    [
        (["97", "0", "1"], "", [0.97, 0, 0.01]),
        (["97", "0", "1"], OF_4_6, [0.97, 0, 0.01]),
        (["0.970000", "1.000000", "0.000000"], "", [0.97, 1, 0]),
        (["0.970000", "1", "0"], OF_4_6, [0.97, 1, 0]),
        (["1", "0"], "", [0.01, 0]),
        (["1", "0"], OF_4_6, [0.01, 0]),
        (["1.000000", "0.000000"], OF_4_6, [1, 0]),
        (["1", "1"], OF_4_7, [1, 1]),
        (["1", "0"], "DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{0}}} 0.99\n", [1, 0]),
        (["1.0", "0"], "DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{0}}} 0.01\n", [0.01, 0]),
        (["0.5", "4294967295"], OF_4_7, [0.5, None]),
        (["50", "4294967295"], "", [0.5, None]),
    ],
)
def test_one_name_in_two_units_is_read_by_what_the_page_shows(values, beside, shares):
    assert shares == utilization(*values, beside=beside)


@pytest.mark.parametrize("value", ["-1", "NaN", "+Inf", "4294967295"])
def test_a_utilization_that_cannot_be_is_counted_and_absent(value):
    reading = parse(
        f"DCGM_FI_DEV_GPU_TEMP{{{labels()}}} 40\nDCGM_FI_DEV_GPU_UTIL_RATIO{{{labels()}}} {value}\n"
    )

    assert {IMPLAUSIBLE, "content"} & {one.reason for one in reading.rejected}
    assert reading.gpus[0].value(m.GPU_UTILIZATION.name) is None


def test_a_page_with_old_and_new_names_tells_each_value_once():
    assert told_by_version(page_4_8()) == told_by_version(page_4_8() + page_4_9())


NVLINK_5 = tuple(
    name for one in DCGM_FIELDS if one.metric is m.GPU_NVLINK_ERRORS for name in one.names
)


@pytest.mark.parametrize("name", NVLINK_5)
def test_each_counter_of_nvlink_errors_is_a_kind_under_its_old_and_its_new_name(name):
    errors = told_by_version(f"{PREFIX}{name}{{{labels()}}} 7\n")

    ((metric, _, _, link, _), value), = (
        item for item in errors.items() if item[0][0] == m.GPU_NVLINK_ERRORS.name
    )  # fmt: skip
    assert (m.GPU_NVLINK_ERRORS.name, "all", 7) == (metric, link, value)


def test_bit_error_ratios_of_nvlink_5_are_told():
    ratios = told_by_version(f"DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT{{{labels()}}} 0.000015\n")

    assert 1.5e-5 == ratios[m.GPU_NVLINK_BER.name, "0", "GPU-0", "all", "symbol"]


TEMPERATURE = f"DCGM_FI_DEV_GPU_TEMP{{{labels()}}} 40\n"
LINK = (
    'nvlink="3",gpu="0",gpu_uuid="GPU-0",pci_bus_id="00000000:18:00.0",device="nvidia0",'
    'model_name="NVIDIA B200",hostname="n1"'
)


def test_a_line_of_a_single_link_is_of_its_gpu_and_never_of_the_whole_one():
    linked = told_by_version(
        page_4_9()
        + f"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_PER_LINK_TOTAL{{{LINK}}} 5\n"
        + f"DCGM_FI_DEV_NVLINK_LINK_STATUS{{{LINK}}} 1\n"
        + f"DCGM_FI_DEV_NVLINK_LINK_STATUS{{{LINK.replace('3', '4', 1)}}} 0\n"
        + f"DCGM_FI_DEV_GPU_TEMP{{{LINK}}} 99\n"
    )

    assert 5 == linked[m.GPU_NVLINK_ERRORS.name, "0", "GPU-0", "3", "replay"]
    assert 1 == linked[m.GPU_NVLINK_UP.name, "0", "GPU-0", "3"]
    assert 0 == linked[m.GPU_NVLINK_UP.name, "0", "GPU-0", "4"]
    assert 61 == linked[m.GPU_TEMPERATURE.name, "0", "GPU-0", "gpu"]


@pytest.mark.parametrize("name", NVLINK_5)
def test_a_counter_that_is_told_link_by_link_keeps_its_links(name):
    errors = told_by_version(f"{TEMPERATURE}{PREFIX}{name}{{{LINK}}} 7\n")

    ((link, value),) = (
        (key[3], value) for key, value in errors.items() if key[0] == m.GPU_NVLINK_ERRORS.name
    )
    assert ("3", 7) == (link, value)


def test_errors_that_are_told_as_a_sum_are_not_told_by_link_again():
    linked = told_by_version(
        f"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL{{{labels()}}} 5\n"
        f"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_PER_LINK_TOTAL{{{LINK}}} 5\n"
    )

    assert [("all", 5)] == [
        (key[3], value) for key, value in linked.items() if key[0] == m.GPU_NVLINK_ERRORS.name
    ]


@pytest.mark.parametrize(
    ("name", "is_known"),
    [
        ("DCGM_FI_DEV_FAN_SPEED", True),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_L11", True),
        ("DCGM_FI_DEV_NVLINK_FEC_HISTORY_7_TOTAL", True),
        ("DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL", True),
        ("DCGM_FI_DEV_VGPU_MEMORY_USAGE", True),
        ("DCGM_FI_DEV_SM_CLOCK_KILOHERTZ", False),
        ("DCGM_FI_DEV_FB_USED_GIB", False),
        ("DCGM_FI_DEV_GPU_TEMP_KELVIN", False),
        ("DCGM_FI_DEV_NVLINK_COUNT_NEW_ERRORS", False),
        ("DCGM_FI_PROF_TENSOR_BUSY", False),
    ],
)
def test_what_has_no_use_here_is_told_from_what_nobody_knows(name, is_known):
    assert is_known == known(name)
    assert (frozenset() if is_known else {name}) == parse(f"{name}{{{labels()}}} 1\n").unknown_names
