"""Intervals against their closed forms, and by how often they hold what they were drawn from."""

import json

import numpy as np
import pytest

from lockstep.analyzer.ledger.faults import DAY, read_faults, reliability
from lockstep.analyzer.ledger.reliability import mean, mtbf
from lockstep.analyzer.shapes.run import LoadError
from tests.wild import SHARED

TRACE = SHARED / "data/stepfun/fault_trace.json"
"""Not part of the project (tests.wild)."""


def test_mtbf_has_the_interval_of_the_handbook():
    """NIST/SEMATECH e-Handbook 8.4.5.1: 10 failures in 1,500 h; factors 0.5438 and 2.0853."""
    told = mtbf(10, 1500.0)

    assert told.value == 150.0
    assert told.interval == pytest.approx((150.0 * 0.5438, 150.0 * 2.0853), rel=1e-3)


def test_without_a_failure_there_is_a_lower_end_only():
    """The rule of three, two-sided: 3.689 = -ln 0.025."""
    told = mtbf(0, 100.0)

    assert np.isnan(told.value)
    assert told.interval == (pytest.approx(100.0 / 3.689, rel=1e-3), np.inf)
    assert told.to_dict() == {"value": None, "interval": [pytest.approx(27.1, rel=1e-2), None]}


def test_without_time_nothing_is_known():
    assert np.isnan(mtbf(3, 0.0).value)
    assert np.isnan(mean([]).value)


def test_the_interval_holds_the_truth_as_often_as_it_says():
    dice = np.random.default_rng(1)
    draws = dice.poisson(6.0, 2000)
    held = [low <= 100.0 / 6.0 <= high for low, high in (mtbf(n, 100.0).interval for n in draws)]

    assert 0.95 <= np.mean(held) <= 1.0


def _event(node, day, kind, what="GPU"):
    return {"node_id": node, "event_time": day, "event_type": kind, "fault_type": {"Class": what}}


def test_faults_that_overlap_are_one_outage():
    events = [
        _event("a", 1.0, "fault_start"), _event("a", 2.0, "fault_start", "NIC"),
        _event("a", 3.0, "fault_end"), _event("a", 5.0, "fault_end", "NIC"),
        _event("b", 6.0, "fault_start"),
    ]  # fmt: skip
    fleet = reliability(read_faults(events), nodes=4, days=10.0)

    assert (fleet.faults, fleet.failed_nodes, fleet.node.failures) == (3, 2, 2)
    assert fleet.node.repaired == 1
    assert fleet.node.mttr.value == 4.0 * DAY
    # b is down from day 6 to the end, a from 1 to 5.
    assert fleet.node.availability.value == pytest.approx(1.0 - 8.0 / 40.0)
    assert fleet.node.exposure_seconds == pytest.approx(32.0 * DAY)
    assert fleet.fleet.mtbf.value == pytest.approx(5.0 * DAY)


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        ({}, "JSON list"),
        ([7], "event 0 is not one"),
        ([_event("a", -1.0, "fault_start")], "days from 0"),
        ([_event("a", float("nan"), "fault_start")], "days from 0"),
        ([_event("a", 1.0, "broke")], "must be fault_start or fault_end"),
        ([_event("a", 1.0, "fault_end")], "did not begin"),
        ([_event("a", 2.0, "fault_start"), _event("a", 1.0, "fault_end")], "before it began"),
    ],
)
def test_what_is_no_trace_is_said(tree, why):
    with pytest.raises(LoadError, match=why):
        read_faults(tree)


def test_fewer_nodes_than_failed_are_refused():
    faults = read_faults([_event("a", 1.0, "fault_start"), _event("b", 1.0, "fault_start")])
    with pytest.raises(LoadError, match="of 2 nodes, more than 1"):
        reliability(faults, nodes=1, days=None)
    with pytest.raises(LoadError, match=r"begins on day 1\.0"):
        reliability(faults, nodes=2, days=0.5)


def test_a_year_of_a_fleet(tmp_path):
    """As large as the public trace of 400 servers, drawn: what it was drawn from is held."""
    dice = np.random.default_rng(4)
    events = []
    for node in range(400):
        day = dice.exponential(240.0)
        while day < 349.0:
            end = day + dice.lognormal(0.0, 1.5)
            events += [_event(f"n{node}", day, "fault_start"), _event(f"n{node}", end, "fault_end")]
            day = end + dice.exponential(240.0)
    path = tmp_path / "faults.json"
    path.write_text(json.dumps(events))

    fleet = reliability(read_faults(json.loads(path.read_text())), 400, 349.0)

    low, high = fleet.node.mtbf.interval
    assert low <= 240.0 * DAY <= high
    low, high = fleet.node.mttr.interval
    assert low <= np.exp(1.5**2 / 2) * DAY <= high


@pytest.mark.skipif(
    not TRACE.is_file(), reason="no recorded fault trace here (LOCKSTEP_SHARED, or ../shared)"
)
def test_the_public_trace_of_400_servers():
    """InfiniteHBD (arXiv:2502.03885) publishes 584 faults of 231 of 400 servers."""
    fleet = reliability(read_faults(json.loads(TRACE.read_text())), nodes=400, days=None)

    assert (fleet.faults, fleet.failed_nodes, fleet.node.repaired) == (584, 231, 582)
    assert fleet.kinds["GPU GPU DBE(Double Bit ECC) > Threshold"] == 60
    assert fleet.node.mtbf.interval[0] < 234.3 * DAY < fleet.node.mtbf.interval[1]
    assert fleet.node.availability.value == pytest.approx(0.9769, abs=1e-4)
