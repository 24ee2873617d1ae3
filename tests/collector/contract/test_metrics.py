"""Histograms from the contract to the page, the cap and the archive."""

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import METRICS, SAMPLES, Kind, Metric, label_text
from lockstep.collector.exporter.page import Form, Renderer, render
from lockstep.collector.exporter.series_cap import capped
from lockstep.collector.recorder.rows import sample_rows

NAME = m.NCCL_DURATION.name
SIZE = len(m.COLLECTIVE_BOUNDS) + 3
"""Series of one histogram."""


def histogram(run: str, group: str = "dp", op: str = "all_reduce", **counts: int):
    numbers = [0] * (len(m.COLLECTIVE_BOUNDS) + 1)
    for place, number in counts.items():
        numbers[int(place[1:])] = number
    return m.NCCL_DURATION.histogram(numbers, 0.5, run, group, op)


def test_buckets_are_cumulated_and_end_in_infinity():
    one = Metric("h_seconds", Kind.HISTOGRAM, ("a",), "Help.", (0.001, 0.3))

    told = [(s.metric.name, s.labels, s.value) for s in one.histogram([2, 0, 3], 4.5, "x")]

    assert told == [
        ("h_seconds_bucket", ("x", "0.001"), 2),
        ("h_seconds_bucket", ("x", "0.3"), 2),
        ("h_seconds_bucket", ("x", "+Inf"), 5),
        ("h_seconds_count", ("x",), 5),
        ("h_seconds_sum", ("x",), 4.5),
    ]


@pytest.mark.parametrize("metric", [m.NCCL_DURATION, m.HOST_CPUS])
def test_a_histogram_wants_one_count_a_bucket_and_a_gauge_none(metric):
    with pytest.raises(ValueError, match=metric.name):
        metric.histogram([1, 2], 1.0, "run", "group", "op")


def test_the_page_has_one_help_and_one_type_for_all_parts():
    page = render([*histogram("a", b0=1), *histogram("b", b3=2)])

    heads = [line for line in page.splitlines() if line.startswith("#")]
    assert [f"# HELP {NAME} {m.NCCL_DURATION.help}", f"# TYPE {NAME} histogram"] == heads
    assert 2 * SIZE == len(page.splitlines()) - 2


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.integers(0, 1 << 40), min_size=14, max_size=14), max_size=4),
    st.floats(0, 1e12),
)
def test_both_formats_parse_and_keep_every_count(counts, total):
    samples = [
        sample
        for number, one in enumerate(counts)
        for sample in m.NCCL_DURATION.histogram(one, total, f"run {number}", "dp", "send")
    ]

    for form, parse in (
        (Form.TEXT, text_string_to_metric_families),
        (Form.OPENMETRICS, openmetrics.text_string_to_metric_families),
    ):
        found = [
            (sample.name, tuple(sample.labels.values()), sample.value)
            for family in parse(render(samples, form))
            for sample in family.samples
        ]
        wanted = [(s.metric.name, s.labels, float(s.value)) for s in samples]
        assert sorted(wanted) == sorted(found)


def test_histograms_of_two_readings_stay_whole_on_the_page():
    parts = [histogram("a", b1=1), histogram("b", b2=1)]

    text = Renderer().render(parts, Form.OPENMETRICS)

    families = list(openmetrics.text_string_to_metric_families(text))
    assert [NAME] == [family.name for family in families]
    assert 2 * SIZE == len(families[0].samples)


@pytest.mark.prometheus
def test_promtool_finds_nothing_wrong_with_a_histogram():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")

    done = subprocess.run(
        [promtool, "check", "metrics"],
        input=render([*histogram("a", b1=1), *histogram("b", b2=1)]),
        capture_output=True,
        text=True,
    )

    assert [] == (done.stdout + done.stderr).splitlines()


@pytest.mark.parametrize("cap", [2 * SIZE, 2 * SIZE - 1, SIZE, SIZE - 1, 1, 0])
def test_the_cap_drops_whole_histograms_and_counts_their_series(cap):
    kept, dropped = capped([*histogram("a", b1=1), *histogram("b", b2=1)], cap)

    assert len(kept) == cap // SIZE * SIZE
    assert dropped[NAME] == 2 * SIZE - len(kept)
    assert set(dropped) <= {NAME}


def test_what_follows_a_broken_histogram_in_the_order_of_the_cap_stays():
    samples = [m.TRAIN_OWN(1.0, "r", "0"), *histogram("a", b1=1), m.SOURCE_UP(1, "procfs")]

    kept, _ = capped(samples, len(samples) - 1)

    assert [m.TRAIN_OWN, m.SOURCE_UP] == [sample.metric for sample in kept]


def test_the_recorder_keeps_the_parts_with_their_bounds():
    rows = sample_rows(render(histogram("r", b0=3)), 1.0, "node-0", "r")

    assert SIZE == len(rows)
    assert (1.0, "node-0", None, None, f"{NAME}_bucket",
            'group="dp",le="1e-05",op="all_reduce"', 3.0) == rows[0]  # fmt: skip
    assert [f"{NAME}_count", f"{NAME}_sum"] == [row[4] for row in rows[-2:]]


def test_every_name_on_the_page_is_of_one_metric_and_parts_know_their_family():
    assert {one.family for one in SAMPLES.values()} == set(METRICS)
    assert all((metric.kind is Kind.HISTOGRAM) == bool(metric.parts) for metric in METRICS.values())


# One text for one series, whoever writes it; a label that does not exist is an error at once.


def test_the_order_of_labels_makes_no_other_series() -> None:
    first = m.GPU_ECC_ERRORS.series(type="uncorrected", counter="volatile")

    assert first == m.GPU_ECC_ERRORS.series(counter="volatile", type="uncorrected")
    assert 'lockstep_gpu_ecc_errors_total{counter="volatile",type="uncorrected"}' == first


def test_a_series_without_labels_of_its_own_is_its_metric() -> None:
    assert m.GPU_POWER.name == m.GPU_POWER.series()


@pytest.mark.parametrize("labels", [{}, {"domian": "sm"}, {"domain": "sm", "gpu": "0"}])
def test_a_label_too_few_or_of_another_name_is_an_error(labels: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"lockstep_gpu_clock_hertz takes labels \['domain'\]"):
        m.GPU_CLOCK.series(**labels)


def test_a_part_of_the_labels_selects_and_none_else_exists() -> None:
    assert ('direction="transmit"',) == m.NET_BYTES.selector(direction="transmit")
    with pytest.raises(ValueError, match="has no label directoin"):
        m.NET_BYTES.selector(directoin="transmit")


def test_the_place_of_a_series_is_not_in_its_text() -> None:
    assert 'domain="sm"' == label_text({"uuid": "GPU-0", "gpu": "0", "domain": "sm"})


@pytest.mark.parametrize(
    "text",
    ['type="corrected",counter="volatile"', 'kind="corrected"', "corrected", 'type="a'],
)
def test_a_text_with_other_labels_or_in_another_order_is_no_series(text: str) -> None:
    m.GPU_ECC_ERRORS.check_labels('counter="volatile",type="corrected"')
    m.GPU_ECC_ERRORS.check_labels('type="corrected"')
    m.GPU_ECC_ERRORS.check_labels("")
    with pytest.raises(ValueError, match="lockstep_gpu_ecc_errors_total has no series with"):
        m.GPU_ECC_ERRORS.check_labels(text)
