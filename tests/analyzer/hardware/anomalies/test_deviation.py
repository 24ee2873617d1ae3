"""Anomalies in the verdict and in the report."""

import json

import pytest

from lockstep.analyzer.hardware.anomalies.deviation import (
    Deviation,
    anomalies_json,
    merge_deviations,
)
from lockstep.analyzer.hardware.anomalies.watched_metrics import Subject
from lockstep.analyzer.report.document import document
from lockstep.analyzer.report.render import render
from lockstep.analyzer.shapes.verdict_json import verdict_json
from lockstep.analyzer.verdict.pipeline import diagnose

KEYS = ["node", "gpu", "uuid", "metric", "deviation", "since", "costs_time", "text"]


def test_the_hardware_of_the_culprit_costs_time(synthetic, fault):
    verdict = diagnose(synthetic(faults=[fault("pcie", 1)]).run()).verdict

    assert [("node-1", 0, "GPU-00000001", True)] == [
        (each["node"], each["gpu"], each["uuid"], each["costs_time"]) for each in verdict.anomalies
    ]


def _deviation(subject, size, gpu, node="node-1"):
    return Deviation(subject, "lockstep_gpu_up", node, gpu, size, 1e9, f"{subject} {size}")


ALL = (
    _deviation(Subject.PCIE, 69.0, 0),
    _deviation(Subject.NVLINK, 100.0, 1),
    _deviation(Subject.CLOCK, -9.0, 2),
    _deviation(Subject.CLOCK, -12.0, 3),
    _deviation(Subject.HEAT, 4.0, 4),
    _deviation(Subject.MEMORY, None, 5),
    _deviation(Subject.GONE, None, 6),
)


def test_what_broke_comes_first_and_spreads_of_links_do_not_hide_a_slow_clock():
    told = [(each.subject, each.gpu) for each in merge_deviations(ALL)]

    assert [
        ("gone", 6), ("memory", 5), ("clock", 3), ("clock", 2), ("nvlink", 1), ("pcie", 0),
        ("heat", 4),
    ] == told  # fmt: skip


def test_what_costs_time_comes_before_all_that_costs_none(synthetic, fault):
    culprit = diagnose(synthetic(faults=[fault("pcie", 1)]).run()).verdict.culprits[0]
    mine = _deviation(Subject.HEAT, 3.5, culprit.gpu, culprit.node)
    told = anomalies_json(merge_deviations((*ALL[1:], mine)), (), [culprit])

    assert [True] + [False] * 6 == [each["costs_time"] for each in told]
    assert ("heat 3.5", "gone None") == (told[0]["text"], told[1]["text"])


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
