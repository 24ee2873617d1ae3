"""Gauges of a GPU against its peers'."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.analyzer.hardware.anomalies.judge import judge
from lockstep.analyzer.shapes.run import RankInfo
from tests.analyzer.hardware.anomalies.conftest import (
    CLOCK,
    GENERATION,
    HEAT,
    LIMIT,
    POWER,
    UTIL,
    WIDTH,
    Hardware,
)

FEW = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def told(fleet, ranks=()):
    return [
        (each.subject, each.node, each.gpu) for each in judge(fleet.samples(), ranks).deviations
    ]


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(10))
def test_a_healthy_fleet_is_silent(hardware, seed):
    judged = judge(hardware(seed=seed, nodes=1 + seed % 3).samples())

    assert ((), ()) == (judged.deviations, judged.missing)


@FEW
@given(
    st.floats(30, 90), st.floats(100, 700), st.floats(3e8, 2e9), st.floats(0, 1), st.integers(1, 3)
)
def test_identical_gpus_are_silent(heat, power, clock, used, nodes):
    fleet = Hardware(nodes=nodes, bins=30, noise=0.0)
    for key, value in ((HEAT, heat), (POWER, power), (CLOCK, clock), (UTIL, used)):
        fleet.gpus[key][:] = value

    assert [] == told(fleet)


def test_a_hot_gpu_at_no_more_power_deviates(hardware):
    fleet = hardware()
    fleet.gpus[HEAT][20:, 5] += 20.0

    found = judge(fleet.samples()).deviations

    assert [("heat", "node-1", 1)] == [(each.subject, each.node, each.gpu) for each in found]
    assert found[0].text.startswith("GPU 1 of node-1: temperature 8")
    assert 1_760_000_300.0 == pytest.approx(found[0].since, abs=45.0)


def test_a_gpu_that_is_warm_because_it_draws_more_is_silent(hardware):
    fleet = hardware()
    fleet.gpus[HEAT][:, 5] += 20.0
    fleet.gpus[POWER][:, 5] *= 1.2

    assert [] == told(fleet)


def test_idle_gpus_are_no_peers_of_those_at_work(hardware):
    fleet = hardware()
    fleet.gpus[UTIL][:, :3] = 0.0
    fleet.gpus[POWER][:, :3], fleet.gpus[HEAT][:, :3] = 75.0, 30.0
    fleet.gpus[CLOCK][:, :3], fleet.gpus[WIDTH][:, :3] = 3.45e8, 4.0

    assert [] == told(fleet)


@pytest.mark.parametrize(("key", "value", "subject"), [
    (LIMIT, 400.0, "power"), (WIDTH, 8.0, "pcie"), (GENERATION, 4.0, "pcie"),
    (("lockstep_gpu_nvlink_up", 'link="1"'), 0.0, "nvlink"), (CLOCK, 1.2e9, "clock"),
])  # fmt: skip
def test_a_part_that_fell_behind_its_peers_deviates(hardware, key, value, subject):
    fleet = hardware()
    fleet.gpus[key][30:, 2] = value

    assert [(subject, "node-0", 2)] == told(fleet)


def test_a_pcie_link_is_told_with_its_lanes_and_its_generation(hardware):
    fleet = hardware()
    fleet.gpus[WIDTH][30:, 2], fleet.gpus[GENERATION][30:, 2] = 8.0, 4.0

    link, generation = "PCIe link x8 where its peers have x16", "PCIe generation 4 where its peers"
    assert [f"GPU 2 of node-0: {link}; {generation} have 5"] == [
        each.text for each in judge(fleet.samples()).deviations
    ]


def test_what_lasts_three_scrapes_is_no_deviation(hardware):
    fleet = hardware()
    fleet.gpus[HEAT][20:23, 5] += 30.0
    fleet.gpus[CLOCK][20:23, 4] /= 2

    assert [] == told(fleet)


def test_stages_that_differ_from_the_start_are_silent(hardware):
    fleet = hardware()
    fleet.gpus[CLOCK][:, 4:] *= 0.85
    fleet.gpus[POWER][:, 4:] *= 1.5
    ranks = [RankInfo(r, f"node-{r // 4}", r % 4, None, r % 4, r % 4, r // 4, 0) for r in range(8)]

    assert [] == told(fleet, ranks)


def test_of_two_gpus_that_differ_nobody_knows_which_is_normal(hardware):
    fleet = hardware(nodes=1, width=2)
    fleet.gpus[HEAT][:, 1] += 25.0

    assert [] == told(fleet)


@FEW
@given(st.permutations(["a", "b", "c"]), st.integers(0, 11))
def test_renaming_nodes_renames_the_deviations(names, culprit):
    fleet = Hardware(nodes=3, names=list(names)).hot(culprit, since=30)

    assert {(names[culprit // 4], culprit % 4)} == {(node, gpu) for _, node, gpu in told(fleet)}


@FEW
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.6))
def test_gaps_in_a_healthy_fleet_are_no_deviation(seed, share):
    fleet = Hardware(nodes=2, bins=40, seed=seed % 7)
    dice = np.random.default_rng(seed)
    for cells in fleet.gpus.values():
        cells[dice.random(cells.shape) < share] = np.nan
    # Of the last scrapes most are there: a GPU that stops telling is a deviation of its own.
    fleet.gpus[UTIL][-4:] = 0.8
    assert [] == told(fleet)
