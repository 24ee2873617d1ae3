"""What DCGM's numbers mean, by field."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.dcgm import DCGM_FIELDS, FIELD_IDS, PREFIX, RAW_FIELDS
from lockstep.collector.contract.metrics import METRICS
from lockstep.collector.readings.gpu import Gpu, GpuReading
from lockstep.collector.samples.gpu import collect
from lockstep.collector.sources.dcgm_values import blank, checked, values

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
