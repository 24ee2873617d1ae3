"""The real trace: its slowed worker, and slowdowns put into a healed copy."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.analyzer.operations.outliers import cells, judge
from lockstep.analyzer.operations.whatif.graph import COMPUTE
from tests.analyzer.edited import healed, slowed
from tests.analyzer.stages import verdict_of_trace

ALL = [(dp, stage) for dp in range(4) for stage in range(4)]


def named(trace):
    return [(one.dp, one.stage) for one in judge(cells(trace)).suspects]


def test_the_slowed_worker_is_named_and_nobody_else(published_trace):
    verdict = verdict_of_trace(published_trace)
    one = verdict.culprits[0]

    assert [(0, 0, 0, "page")] == [(c.rank, c.dp, c.pp, c.tier) for c in verdict.culprits]
    assert 2.3 < one.slowdown < 2.5
    assert 0.9 <= one.confidence


def test_what_it_costs_is_simulated(published_trace):
    verdict = verdict_of_trace(published_trace)

    assert "simulation" == verdict.what_if["method"]
    assert 1.9730451 == pytest.approx(verdict.what_if["S"], rel=1e-6)
    assert ["rank 0"] == [fix["remove"] for fix in verdict.what_if["fixes"]]
    assert 0.505 == pytest.approx(verdict.what_if["fixes"][0]["gain"], abs=0.01)


def test_victims_and_the_heavy_stage_are_let_go_with_the_reason(published_trace):
    why = {one.rank: one.why for one in verdict_of_trace(published_trace).rejected}

    assert all("a victim" in why[rank] for rank in (16, 32, 48))
    assert "stage 3 is heavier in every replica" in why[52]


def test_its_heavier_last_stage_is_structure_and_no_fault(healthy_published):
    verdict = verdict_of_trace(healthy_published)

    assert ("healthy", ()) == (verdict.status, verdict.culprits)
    assert ["stage-imbalance"] == [one["kind"] for one in verdict.structure]


@pytest.mark.parametrize("seed", range(3))
def test_healthy_variants_name_nobody(published_trace, seed):
    trace = healed(published_trace, seed=seed, donor=1 + seed % 3)
    rows = np.flatnonzero(trace.of(*COMPUTE))
    duration = trace.duration.copy()
    dice = np.random.default_rng(seed)
    duration[rows] *= 1 + 0.003 * dice.standard_normal(duration[rows].shape)

    assert [] == named(replace(trace, duration=duration))


@pytest.mark.slow
def test_a_worker_2_percent_slow_is_found_wherever_it_is(healthy_published):
    assert [[cell] for cell in ALL] == [
        named(slowed(healthy_published, *cell, 1.02)) for cell in ALL
    ]


def test_2_percent_is_a_record_and_no_page(healthy_published):
    verdict = verdict_of_trace(slowed(healthy_published, 1, 1, 1.02))

    assert [(1, 1, "record")] == [(c.dp, c.pp, c.tier) for c in verdict.culprits]


def test_a_worker_that_became_slow_is_slow_from_that_step(healthy_published):
    steps = healthy_published.steps
    verdict = verdict_of_trace(slowed(healthy_published, 2, 1, 1.05, steps[20:35]))

    assert [(2, 1, steps[20], steps[35])] == [
        (c.dp, c.pp, c.from_step, c.to_step) for c in verdict.culprits
    ]
