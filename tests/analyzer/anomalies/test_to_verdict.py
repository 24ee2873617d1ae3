"""Anomalies in the verdict and in the report."""

import json

import pytest

from analyzer.pipeline import diagnose
from analyzer.report import render
from analyzer.report.document import document
from analyzer.verdict_json import verdict_json

KEYS = ["node", "gpu", "uuid", "metric", "deviation", "since", "costs_time", "text"]


def test_the_hardware_of_the_culprit_costs_time(synthetic, fault):
    verdict = diagnose(synthetic(faults=[fault("pcie", 1)]).run()).verdict

    assert [("node-1", 0, "GPU-00000001", True)] == [
        (each["node"], each["gpu"], each["uuid"], each["costs_time"]) for each in verdict.anomalies
    ]


def test_an_anomaly_has_the_keys_of_the_contract_and_is_json(synthetic, fault):
    verdict = diagnose(synthetic(faults=[fault("thermal", 2)]).run()).verdict

    tree = json.loads(json.dumps(verdict_json(verdict), allow_nan=False))

    assert [KEYS] * len(tree["anomalies"]) == [list(each) for each in tree["anomalies"]]
    assert tree["anomalies"]


@pytest.mark.parametrize("seed", range(4))
def test_a_healthy_run_has_no_anomalies_and_no_section(synthetic, seed):
    diagnosis = diagnose(synthetic(seed=seed, world=4 + 2 * (seed % 2)).run())

    assert () == diagnosis.verdict.anomalies
    assert "deviations" not in [each["name"] for each in document(diagnosis)["sections"]]


@pytest.mark.parametrize("form", ["html", "md"])
def test_the_report_shows_hardware_that_deviates(synthetic, fault, form):
    text = render(document(diagnose(synthetic(faults=[fault("nvlink", 3)]).run())), form)

    assert "Hardware that deviates" in text
    assert "NVLink errors a second" in text
