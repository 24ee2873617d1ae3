"""What the page of `watch` says of nodes."""

from dataclasses import replace

import pytest

from lockstep.analyzer.findings.closable import Closable
from lockstep.analyzer.findings.finding import Tier
from lockstep.analyzer.findings.finding_lifecycle import Course, Pace, advance
from lockstep.collector.contract import metrics as m
from lockstep.watch.serve.metrics import of_findings


def _health(sighting):
    """Node -> score, of a fleet of two nodes in which one thing is seen."""
    judged = Closable(1000.0, frozenset({"gpt-1"}), {"gpt-1": 1000.0})
    _, change = advance(Course({}, {}), [sighting], judged, Pace(confirm=600.0, close=300.0))
    told = of_findings(change.open, ["node-0", "node-2"])
    return {sample.labels[0]: sample.value for sample in told if sample.metric is m.NODE_HEALTH}


@pytest.mark.parametrize(("tier", "health"), [(Tier.PAGE, 0.02), (Tier.RECORD, 0.51)])
def test_a_node_is_as_ill_as_the_place_is_sure_whatever_the_cause(sighting, tier, health):
    one = replace(sighting(tier=tier, cause="unknown"), confidence=0.4, place_confidence=0.98)

    assert {"node-0": 1.0, "node-2": pytest.approx(health)} == _health(one)


def test_where_no_place_was_told_apart_the_one_confidence_counts(sighting):
    assert pytest.approx(0.1) == _health(sighting())["node-2"]


def test_of_what_nobody_is_to_be_told_no_rule_is_told_either(sighting):
    quiet = replace(sighting(tier=Tier.RECORD), quiet=True)
    judged = Closable(1000.0, frozenset({"gpt-1"}), {"gpt-1": 1000.0})
    told = [sighting(1), quiet]
    _, change = advance(Course({}, {}), told, judged, Pace(confirm=600.0, close=300.0))
    samples = list(of_findings(change.open, ["node-1", "node-2"]))

    assert 2 == len(change.open)
    assert ["node-1"] == [one.labels[1] for one in samples if one.metric is m.FINDING_ACTIVE]
    assert 1.0 == _health(quiet)["node-2"]
