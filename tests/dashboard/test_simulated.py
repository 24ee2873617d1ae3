"""The simulated fleet says that it is one, has its faults where it says, and is fast."""

import numpy as np
import pytest

from lockstep.dashboard.shapes import FLEET_METRICS, Severity
from lockstep.dashboard.sources.simulated import SimulatedSource
from lockstep.dashboard.sources.simulated.plan import RUN

NOW = 1_795_000_007.0
METRICS = {metric.key: metric for metric in FLEET_METRICS}


@pytest.fixture(scope="module")
def source():
    return SimulatedSource(10_000, seed=3, clock=lambda: NOW)


def test_it_says_that_it_is_simulated_wherever_it_speaks(source):
    assert source.answer().simulated
    assert source.fleet(METRICS["power"]).simulated
    assert "program made" in source.run(RUN).provenance[0]
    assert source.verdict(RUN)["sentence"].startswith("Simulated")
    assert all("imulated" in one.sentence for one in source.findings(source.extent()))


def test_the_named_culprit_is_the_slowest_and_the_hottest_place_of_the_map(source):
    culprit = source.verdict(RUN)["culprits"][0]
    slow = source.fleet(METRICS["slowdown"])
    worst = int(np.nanargmax(slow.values))
    assert (culprit["node"], culprit["gpu"]) == (slow.nodes[worst], slow.gpus[worst])
    heat = source.fleet(METRICS["temperature"])
    assert culprit["node"] == heat.nodes[int(np.nanargmax(heat.values))]
    assert culprit["rank"] == source.ranks(RUN, source.extent())["rank"][0]


def test_one_node_is_silent_and_nobody_knows_its_values(source):
    fleet = source.fleet(METRICS["temperature"])
    assert 1 == len(fleet.silent)
    assert np.isnan(fleet.values[fleet.nodes == fleet.silent[0]]).all()
    nodes, answering = source.answer().nodes
    assert nodes - 1 == answering


def test_the_same_seed_is_the_same_fleet_and_another_is_another():
    def values(seed):
        source = SimulatedSource(800, seed, clock=lambda: NOW)
        return source.fleet(METRICS["power"]).values.tolist()

    assert str(values(1)) == str(values(1))
    assert str(values(1)) != str(values(2))


def test_step_shares_add_up_to_the_whole_step(source):
    phases = next(one for one in source.run_lines(RUN, source.extent()) if one.key == "phases")
    total = sum(phases.values.values())
    np.testing.assert_allclose(1.0, total[np.isfinite(total)], rtol=1e-6)


def test_the_hot_node_is_critical_and_others_are_fine(source):
    culprit = source.verdict(RUN)["culprits"][0]["node"]
    other = next(name for name in source.nodes() if name != culprit)
    hot = {one.severity for one in source.node(culprit, source.extent()).checks}
    fine = {one.severity for one in source.node(other, source.extent()).checks}
    assert (True, {Severity.OK}) == (Severity.CRITICAL in hot, fine)


@pytest.mark.parametrize("gpus", [1, 3, 8, 9, 17, 64])
def test_small_fleets_work_too(gpus):
    source = SimulatedSource(gpus, clock=lambda: NOW)
    assert gpus == len(source.fleet(METRICS["clock"]).values)
    assert not source.ranks(RUN, source.extent()).empty
    assert source.verdict(RUN)["culprits"]
