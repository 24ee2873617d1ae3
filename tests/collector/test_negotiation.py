import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import METRICS, Kind
from lockstep.collector.exporter.page import Form, render
from lockstep.collector.exporter.server import form_of, wants_gzip

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.TEXT),
        ("*/*", Form.TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Form.TEXT),
        ("text/plain", Form.TEXT),
        ("application/openmetrics-text", Form.OPENMETRICS),
        ("Application/OpenMetrics-Text; q=0.9, text/plain", Form.TEXT),
        ("application/openmetrics-text;q=0", Form.TEXT),
        (PROMETHEUS_2, Form.OPENMETRICS),
        (PROMETHEUS_3, Form.OPENMETRICS),
    ],
)
def test_openmetrics_only_for_those_who_ask_for_it(accept, form):
    assert form is form_of(accept)


@pytest.mark.parametrize(
    ("header", "packed"),
    [("", False), ("gzip", True), ("br, GZIP;q=0.5", True), ("gzip;q=0", False), ("xgzip", False)],
)
def test_gzip_only_for_those_who_take_it(header, packed):
    assert packed is wants_gzip(header)


@given(st.text())
def test_any_header_is_answered(header):
    assert form_of(header) in Form
    assert wants_gzip(header) in (True, False)


def test_openmetrics_has_its_own_heads_and_an_end():
    text = render([m.GPU_ENERGY(2.5, "0", "u"), m.BUILD_INFO(1, "1", "3")], Form.OPENMETRICS)

    assert text == (
        "# HELP lockstep_build Version of this collector.\n"
        "# TYPE lockstep_build info\n"
        'lockstep_build_info{version="1",python="3"} 1\n'
        f"# HELP lockstep_gpu_energy_joules {m.GPU_ENERGY.help}\n"
        "# TYPE lockstep_gpu_energy_joules counter\n"
        'lockstep_gpu_energy_joules_total{gpu="0",uuid="u"} 2.5\n'
        "# EOF\n"
    )


def told(metric):
    if metric.parts:
        return metric.histogram([1] * (len(metric.bounds) + 1), 1.0, *metric.labels)
    return [metric(1, *metric.labels)]


def test_every_metric_is_openmetrics():
    samples = [sample for metric in METRICS.values() for sample in told(metric)]

    families = list(text_string_to_metric_families(render(samples, Form.OPENMETRICS)))
    assert [sample.metric.name for sample in samples] == [
        sample.name for family in families for sample in family.samples
    ]
    for family, metric in zip(families, METRICS.values(), strict=True):
        kind = "info" if metric.name.endswith("_info") else Kind(metric.kind).value
        assert (kind, metric.help) == (family.type, family.documentation)


@given(st.text(), st.floats(allow_nan=False))
def test_any_label_and_any_number_survive_openmetrics(label, value):
    (family,) = text_string_to_metric_families(
        render([m.GPU_POWER(value, label, "u")], Form.OPENMETRICS)
    )

    (sample,) = family.samples
    assert (label, value) == (sample.labels["gpu"], sample.value)
