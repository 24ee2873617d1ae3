"""What cannot be is absent and counted, whichever source told it."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metric_rows import ranges
from lockstep.collector.contract.metrics import EVERY, Kind
from lockstep.collector.readings.source import IMPLAUSIBLE
from lockstep.collector.sampler.reader import plausible
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.samples.feed import Feed

BAD = 4294967295
"""What a driver's -1 becomes in an unsigned int."""


class Told:
    """A source whose reading is its samples."""

    name = "told"

    def __init__(self, samples):
        self.samples = samples

    def available(self):
        return True

    def read(self):
        return self.samples


@pytest.mark.parametrize(
    "sample",
    [
        m.GPU_UTILIZATION(42949672.95, "0", "GPU-a"),
        m.GPU_UTILIZATION(8083349.05, "0", "GPU-a"),
        m.GPU_TEMPERATURE(644245923, "0", "GPU-a", "gpu"),
        m.GPU_TEMPERATURE(82505, "0", "GPU-a", "gpu"),
        m.GPU_POWER(BAD / 1e3, "0", "GPU-a"),
        m.GPU_PCIE_WIDTH(BAD, "0", "GPU-a"),
        m.GPU_PROCESSES(BAD, "0", "GPU-a"),
        m.GPU_PERFORMANCE_STATE(32, "0", "GPU-a"),
        m.GPU_ENERGY(-1, "0", "GPU-a"),
        m.HOST_TEMPERATURE(-273, "0", "acpitz"),
        m.IB_STATE(9, "mlx5_0", "1"),
        m.NET_SPEED(-125000, "eth0"),
        m.HOST_CPU(-0.01, "user"),
        m.NCCL_RAS_COLLECTION(math.inf, "r", "127.0.0.1:28028"),
    ],
)
def test_what_cannot_be_is_absent_and_counted(sample, clock):
    good = m.HOST_CPUS(112)
    sampler = Sampler(
        [Feed(Told((sample, good)), lambda reading: iter(reading), period=1.0)], clock, ttl=5.0
    )
    sampler._readers[0].read_once()
    page = [one for part in sampler.snapshot() for one in part]

    assert good in page
    assert sample.metric not in {one.metric for one in page}
    assert m.SOURCE_ERRORS(1, "told", IMPLAUSIBLE) in page
    (why,) = (one.failures[IMPLAUSIBLE] for one in sampler.states())
    assert sample.metric.name in why
    assert "it can be" in why


@pytest.mark.parametrize(
    "sample",
    [
        m.GPU_TEMPERATURE_LIMIT_MARGIN(-8, "0", "GPU-a", "shutdown"),
        m.GPU_TEMPERATURE_MARGIN(-3, "0", "GPU-a"),
        m.GPU_TEMPERATURE(0, "0", "GPU-a", "gpu"),
        m.GPU_UTILIZATION(1, "0", "GPU-a"),
        m.GPU_POWER(1400, "0", "GPU-a"),
        m.GPU_CLOCK(14.001e9, "0", "GPU-a", "mem"),
        m.TRAIN_LOSS(-2.5, "r", "0"),
        m.TRAIN_LOSS(math.inf, "r", "0"),
        m.TRAIN_FLOPS(1e24, "r", "0"),
        m.IB_RATE(1e11, "mlx5_0", "1"),
        m.IB_DATA(4 * 2.0**63, "mlx5_0", "1", "transmit"),
        m.CLOCK_OFFSET(-0.25),
        m.GPU_MEMORY_TOTAL(288 << 30, "0", "GPU-a"),
    ],
)
def test_what_real_machines_tell_stands(sample):
    assert ((sample,), []) == plausible([sample])


def test_an_absent_value_stays_absent_without_being_counted():
    (kept,), refused = plausible([m.GPU_POWER(math.nan, "0", "GPU-a")])

    assert math.isnan(kept.value)
    assert [] == refused


def test_every_metric_has_a_range_and_a_reason():
    for metric in EVERY.values():
        low, high, reason = metric.within

        assert low < high, metric.name
        assert len(reason) > 5, metric.name
        assert metric.kind is not Kind.COUNTER or low == 0, metric.name
        assert all(part.within.holds(0) for part in metric.parts), metric.name


def test_a_gauge_of_yes_or_no_is_one():
    words = ("1 if ", "1 while ", "1 for ")
    flags = [one for one in EVERY.values()
             if one.kind is Kind.GAUGE and one.help.startswith(words)]  # fmt: skip

    assert [] == [one.name for one in flags if one.within is not ranges.FLAG]
    assert len(flags) > 20


@settings(max_examples=200)
@given(st.floats(), st.sampled_from([*EVERY.values()]))
def test_a_value_is_told_or_counted(value, metric):
    sample = m.Sample(metric, ("x",) * len(metric.labels), value)
    kept, refused = plausible([sample])

    assert 1 == len(kept) + len(refused)
    assert bool(kept) == metric.within.holds(value)
