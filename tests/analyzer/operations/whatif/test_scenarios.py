"""Shortcuts give what the long way gives."""

import numpy as np
import pytest

from lockstep.analyzer.operations.whatif import simulate as simulation
from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.simulate import retimed, simulate
from lockstep.analyzer.operations.whatif.work import (
    published_ideals,
    split_durations,
    stratum_ideals,
    work_factors,
)
from lockstep.evaluation.synth import traces as synth
from tests.analyzer.edited import healed, slowed

SCENE = synth.Scene(dp=3, pp=2, micro_batches=4, steps=4, noise=0.1, lengths=1.5)


@pytest.fixture(scope="module")
def trace():
    return synth.trace(SCENE)


@pytest.fixture(scope="module")
def graph(trace):
    return build(trace)


@pytest.fixture(scope="module")
def own(trace, graph):
    return split_durations(trace, graph).own


@pytest.mark.parametrize("room", [1, 2**40])
def test_one_ideal_replica_stands_for_all(trace, graph, own, room, monkeypatch):
    monkeypatch.setattr(simulation, "MOST_BYTES", room)
    ideal = published_ideals(trace, own)
    replicas = np.array([0, 1, 2, 1])
    keep = np.stack([np.ones(len(own), bool)] * 3 + [trace.stage == 1])
    long = keep[:, :, None] & (np.arange(3) == replicas[:, None, None])

    expected = simulation.step_seconds_with(graph, own, ideal, long)
    assert pytest.approx(expected, rel=1e-12) == simulation.of_replica(
        graph, own, ideal, keep, replicas
    )


def test_keeping_all_or_nothing_is_the_trace_or_the_ideal(trace, graph, own):
    ideal = published_ideals(trace, own)
    keep = np.zeros((2, len(own), 3), bool)
    keep[0] = True
    all_kept, none_kept = simulation.step_seconds_with(graph, own, ideal, keep)

    assert pytest.approx(simulate(graph, own)) == all_kept
    assert pytest.approx(np.full(4, simulate(graph, ideal)[0])) == none_kept


def test_ideals_are_means_of_computation_and_medians_of_transfers(trace, own):
    ideal = published_ideals(trace, own)[:, 0, 0]
    for optype, middle in (("forward-compute", np.mean), ("forward-send", np.median)):
        rows = trace.of(optype)
        assert pytest.approx(middle(own[rows])) == ideal[rows][0] == ideal[rows][-1]


def test_the_ideal_of_a_stratum_follows_stage_and_micro_batch():
    scene = synth.Scene(dp=4, pp=4, noise=0.0, lengths=2.0, last_stage=1.4)
    trace = synth.trace(scene)
    own = split_durations(trace, build(trace)).own

    assert pytest.approx(own, rel=1e-9) == stratum_ideals(trace, own)


@pytest.mark.parametrize("pp", [2, 3])
def test_a_slow_worker_is_no_longer_micro_batch(pp):
    scene = synth.Scene(dp=4, pp=pp, noise=0.0, slow=(synth.Slow(1, 0, 1.5),))
    trace = synth.trace(scene)
    own = split_durations(trace, build(trace)).own
    ideal = stratum_ideals(trace, own)
    rows = trace.of("forward-compute") & (trace.stage == 0)

    assert pytest.approx(1.5) == own[rows, 1] / ideal[rows, 1]
    assert pytest.approx(1.0) == own[rows, 0] / ideal[rows, 0]


def test_without_stages_nobody_can_tell_work_from_slowness():
    trace = synth.trace(synth.Scene(dp=4, pp=1))
    compute = trace.of("forward-compute", "backward-compute")

    assert work_factors(trace, np.ones((compute.sum(), 4, 20))) is None


def test_retimed_with_its_own_times_a_trace_stays(trace, graph, own):
    again = retimed(trace, graph, own)

    assert pytest.approx(trace.start) == again.start
    assert pytest.approx(trace.duration) == again.duration


def test_healing_undoes_slowing():
    healthy = synth.trace(synth.Scene(noise=0.0))
    slow = slowed(healthy, 1, 2, 1.5)
    back = healed(slow, dp=1, stage=2, donor=0, noise=0.0)

    assert slow.end.max() > 1.1 * healthy.end.max()
    assert pytest.approx(healthy.end) == back.end


def test_slow_in_some_steps_only():
    healthy = synth.trace(synth.Scene(noise=0.0, steps=4))
    ratio = slowed(healthy, 1, 2, 1.5, steps=[1, 3]).end.max(axis=(0, 1)) / healthy.end.max(
        axis=(0, 1)
    )

    assert [False, True, False, True] == (ratio > 1.1).tolist()
