"""Slow workers of made-up runs: who, since when, how."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.analyzer.operations.outliers import judge, trace_cells
from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.graph import COMPUTE
from lockstep.analyzer.operations.whatif.simulate import retimed
from lockstep.analyzer.operations.whatif.work import split_durations
from lockstep.analyzer.stats.temporal_shape import Shape
from lockstep.evaluation.synth import traces as synth
from tests.analyzer.edited import healed, slowed
from tests.analyzer.stages import verdict_of_trace

STEPS = 40


def judged(trace):
    return judge(trace_cells(trace)).suspects


def named(**scene):
    return [(one.dp, one.stage) for one in judged(synth.trace(synth.Scene(**scene)))]


def shaped(factor, *, dp=1, stage=2):
    """A run in which one worker's computation takes `factor` (S,) times as long."""
    return changed(synth.Scene(steps=STEPS), factor, dp=dp, stages=[stage])


def changed(scene, factor, *, stages, dp=0):
    """A run in which some stages' computation takes `factor` (S,) times as long on a replica."""
    trace = synth.trace(scene)
    graph = build(trace)
    own = split_durations(trace, graph).own.copy()
    own[np.flatnonzero(trace.of(*COMPUTE) & np.isin(trace.stage, stages)), dp] *= factor
    return retimed(trace, graph, own)


def by_stage(trace):
    return [(one.stage, one.first, one.last, one.by_peers) for one in judged(trace)]


def one_replica(pp, **scene):
    return synth.Scene(dp=1, pp=pp, steps=STEPS, **scene)


PLACES = np.arange(STEPS)
SPANS = {
    "later": PLACES >= 20,
    "transient": (PLACES >= 10) & (PLACES < 22),
    "periodic": PLACES % 5 == 4,
}


@pytest.mark.parametrize(
    "structure", [{"last_stage": 1.5}, {"lengths": 2.0}, {"lengths": 2.0, "pp": 1}, {"vpp": 2}]
)
def test_structure_alone_names_nobody(structure):
    assert [] == named(dp=8, **structure)


@pytest.mark.parametrize(
    "structure", [{"last_stage": 1.5}, {"lengths": 2.0}, {"lengths": 2.0, "pp": 2}, {"vpp": 2}]
)
def test_a_worker_10_percent_slow_is_named_beside_structure(structure):
    assert [(5, 1)] == named(dp=8, slow=(synth.Slow(5, 1, 1.1),), **structure)


def test_long_sequences_hide_no_slowness_of_2_percent():
    assert [(2, 3)] == named(dp=4, lengths=2.0, slow=(synth.Slow(2, 3, 1.02),))


@pytest.mark.parametrize("second", [(3, 0), (3, 2), (1, 0)])
def test_two_slow_workers_are_both_named(second):
    slow = (synth.Slow(1, 2, 1.2), synth.Slow(*second, 1.1))

    assert sorted([(1, 2), second]) == sorted(named(slow=slow))


def test_a_replica_slow_on_all_stages_is_named_where_sequences_are_even():
    slow = tuple(synth.Slow(1, stage, 1.2) for stage in range(4))

    assert [(1, stage) for stage in range(4)] == sorted(named(slow=slow))


def test_a_replica_long_on_all_stages_is_not_named_where_sequences_are_uneven():
    slow = tuple(synth.Slow(1, stage, 1.2) for stage in range(4))

    assert [] == named(slow=slow, lengths=2.0)


def test_a_transient_has_its_first_and_last_step():
    trace = synth.trace(synth.Scene(steps=STEPS, slow=(synth.Slow(1, 2, 1.2, 10, 22),)))
    (one,) = judged(trace)

    assert (10, 22, Shape.TRANSIENT) == (one.first, one.last, one.shape)


@pytest.mark.parametrize("every", [5, 8])
def test_a_periodic_excess_is_told_as_such(every):
    on = np.arange(STEPS) % every < every // 2
    (one,) = judged(shaped(np.where(on, 1.3, 1.0)))

    assert Shape.PERIODIC == one.shape
    assert on.tolist() == (one.by_step > 0).tolist()
    assert 1.3 == pytest.approx(np.exp(one.excess), abs=0.02)


def test_a_ramp_begins_where_it_leaves_the_level_of_its_peers():
    (one,) = judged(shaped(1 + 0.3 * np.clip((np.arange(STEPS) - 10) / 30, 0, 1)))

    assert Shape.RAMP == one.shape
    assert 10 <= one.first <= 14
    assert one.last is None


@pytest.mark.parametrize("dp", [1, 2])
def test_with_too_few_peers_its_own_past_decides(dp):
    scene = synth.Scene(dp=dp, steps=30, slow=(synth.Slow(dp - 1, 2, 1.2, 15),))
    (one,) = judged(synth.trace(scene))

    assert (dp - 1, 2, 15, False) == (one.dp, one.stage, one.first, one.by_peers)


@pytest.mark.parametrize("factor", [1.1, 1.3])
def test_of_two_replicas_a_constant_difference_accuses_nobody(factor):
    assert [] == named(dp=2, slow=(synth.Slow(1, 2, factor),))


@pytest.mark.sweep
@pytest.mark.parametrize("lengths", [1.0, 2.0])
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("pp", [2, 3, 4])
def test_with_one_replica_a_change_of_all_stages_accuses_nobody(pp, span, lengths):
    factor = np.where(SPANS[span], 1.3, 1.0)

    assert [] == by_stage(changed(one_replica(pp, lengths=lengths), factor, stages=range(pp)))


@pytest.mark.parametrize(
    ("span", "first", "last"), [("later", 20, None), ("transient", 10, 22), ("periodic", 4, None)]
)
@pytest.mark.parametrize("pp", [2, 3, 4])
def test_with_one_replica_a_stage_that_changes_alone_is_found_by_its_past(pp, span, first, last):
    factor = np.where(SPANS[span], 1.3, 1.0)

    assert [(1, first, last, False)] == by_stage(changed(one_replica(pp), factor, stages=[1]))


@pytest.mark.sweep
@pytest.mark.parametrize("lengths", [1.0, 2.0])
@pytest.mark.parametrize("span", ["later", "periodic"])
@pytest.mark.parametrize("pp", [2, 3, 4])
def test_with_one_replica_a_stage_that_becomes_faster_accuses_no_other(pp, span, lengths):
    factor = np.where(SPANS[span], 0.8, 1.0)

    assert [] == by_stage(changed(one_replica(pp, lengths=lengths), factor, stages=[1]))


def test_with_one_replica_at_most_half_of_the_workers_are_accused():
    half, most = (
        by_stage(changed(one_replica(4), np.where(SPANS["later"], 1.3, 1.0), stages=stages))
        for stages in ([0, 2], [0, 1, 2])
    )

    assert [0, 2] == sorted(one[0] for one in half)
    assert [] == most


def test_identical_workers_are_silence():
    assert [] == named(noise=0.0)


@pytest.mark.parametrize("seed", range(3))
def test_slowing_a_flagged_worker_more_never_clears_it(seed):
    flagged = [
        named(seed=seed, slow=(synth.Slow(1, 1, factor, 5),))
        for factor in (1.03, 1.1, 1.5, 3.0, 40.0)
    ]

    assert [[(1, 1)]] * 5 == flagged


# The real trace: its slowed worker, and slowdowns put into a healed copy.

ALL = [(dp, stage) for dp in range(4) for stage in range(4)]


def named_in_trace(trace):
    return [(one.dp, one.stage) for one in judge(trace_cells(trace)).suspects]


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

    assert [] == named_in_trace(replace(trace, duration=duration))


@pytest.mark.slow
def test_a_worker_2_percent_slow_is_found_wherever_it_is(healthy_published):
    assert [[cell] for cell in ALL] == [
        named_in_trace(slowed(healthy_published, *cell, 1.02)) for cell in ALL
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
