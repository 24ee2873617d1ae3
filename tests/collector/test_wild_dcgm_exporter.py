"""Pages that dcgm-exporters of real machines served: each as it has to be read."""

from collections import Counter

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.source import IMPLAUSIBLE
from lockstep.collector.samples.gpu import collect
from lockstep.collector.sources.gpu.dcgm_exporter import parse
from tests.wild import wild


@pytest.fixture
def page():
    def read(name):
        reading = parse(wild(f"dcgm_exporter/{name}").read_text())
        return reading, {(s.metric, *s.labels[2:], s.labels[0]): s.value for s in collect(reading)}

    return read


def test_a_page_with_blanks_between_labels(page):
    reading, told = page("page-old-space-after-comma-2.0.prom")

    assert () == reading.rejected
    assert 1 == len(reading.gpus)
    assert 5057 << 20 == told[m.GPU_MEMORY_FREE, "0"]
    assert 0 == told[m.GPU_LAST_XID, "0"]
    reasons = {key[1] for key in told if key[0] is m.GPU_CLOCK_EVENT_SECONDS}
    assert {"sw_power_cap", "thermal"} <= reasons
    assert not reasons & {"board_limit", "low_util", "reliability"}, "these were blank"


def test_a_page_whose_only_limit_is_the_requested_one(page):
    reading, told = page("page-v100-sxm2-3.3.prom")

    assert () == reading.rejected
    assert 4 == len(reading.gpus)
    limits = {key[-1]: value for key, value in told.items()
              if key[:2] == (m.GPU_POWER_LIMIT, "enforced")}  # fmt: skip
    assert {300.0} == set(limits.values())


def test_a_page_with_the_words_of_an_xid(page):
    reading, told = page("page-rtx3090-xid-labels-pr326.prom")

    assert () == reading.rejected
    assert 1 == len(reading.gpus)
    assert 0 == told[m.GPU_LAST_XID, "0"]
    assert 24268 << 20 == told[m.GPU_MEMORY_FREE, "0"]


def test_no_counter_is_made_of_a_rate(page):
    reading, told = page("page-a100-nvlink-rate-zero-DCGM149.prom")

    assert () == reading.rejected
    assert 2 == len(reading.gpus)
    assert not [key for key in told if key[0] is m.GPU_NVLINK_BYTES]


def test_garbage_is_refused_as_impossible(page):
    reading, told = page("values-garbage-h100-DCGM199-exporter312-418.prom")

    assert {IMPLAUSIBLE} == {*Counter(one.reason for one in reading.rejected)}
    assert not {m.GPU_TEMPERATURE, m.GPU_UTILIZATION, m.GPU_FP64_ACTIVE} & {key[0] for key in told}
    assert {"0", "1"} == {key[-1] for key in told if key[0] is m.GPU_UP}
