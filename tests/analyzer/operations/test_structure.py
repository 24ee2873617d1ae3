"""Structure is named, its cost simulated, and nobody blamed."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.analyzer.operations.outliers import trace_cells
from lockstep.analyzer.operations.structure import Facts, length_imbalance
from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.graph import COMPUTE
from lockstep.analyzer.operations.whatif.simulate import retimed
from lockstep.analyzer.operations.whatif.work import split_durations
from lockstep.evaluation.synth import traces as synth
from tests.analyzer.stages import verdict_of_trace


def verdict_of(**scene):
    return verdict_of_trace(synth.trace(synth.Scene(**scene)))


def kinds(verdict):
    return [one["kind"] for one in verdict.structure]


def changed(trace, change):
    """The run with other own times of computations; `change` gets the trace and K' rows."""
    graph = build(trace)
    own = split_durations(trace, graph).own.copy()
    rows = np.flatnonzero(trace.of(*COMPUTE))
    own[rows] *= change(trace, rows)
    return retimed(trace, graph, own)


def slow_worker(dp, stage, factor):
    """For `changed`: one worker takes `factor` (S,) times as long."""

    def change(trace, rows):
        many = np.ones((len(rows), trace.layout.dp, len(trace.steps)))
        many[trace.stage[rows] == stage, dp] *= factor
        return many

    return change


@pytest.mark.parametrize("vpp", [1, 2])
def test_a_heavy_last_stage_is_stage_imbalance(vpp):
    verdict = verdict_of(last_stage=1.4, vpp=vpp)

    assert ("healthy", (), ["stage-imbalance"]) == (
        verdict.status, verdict.culprits, kinds(verdict),
    )  # fmt: skip
    assert "stage 3" in verdict.structure[0]["text"]
    assert 0.02 < verdict.structure[0]["share"] < 0.3


@pytest.mark.parametrize("pp", [1, 2, 4])
def test_long_and_short_micro_batches_are_sequence_length_imbalance(pp):
    verdict = verdict_of(pp=pp, lengths=1.8)

    assert ("healthy", ["sequence-length-imbalance"]) == (verdict.status, kinds(verdict))
    assert 0 < verdict.structure[0]["share"] < 0.5


def test_a_slow_worker_is_no_stage_imbalance():
    assert [] == kinds(verdict_of(slow=(synth.Slow(1, 3, 1.5),)))


def test_a_stage_that_is_slow_on_one_of_two_replicas_is_no_stage_imbalance():
    assert [] == kinds(verdict_of(dp=2, slow=(synth.Slow(1, 2, 1.1),)))


@pytest.mark.parametrize(("most", "status"), [(1.3, "healthy"), (1.5, "unknown")])
def test_experts_of_unequal_load_are_named_and_clear_nobody_whom_they_hide(most, status):
    trace = synth.trace(synth.Scene())
    dice = np.random.default_rng(0)
    load = most ** dice.random((4, 8, 4, 20))
    verdict = verdict_of_trace(
        changed(trace, lambda run, rows: load[run.stage[rows], run.micro_batch[rows]])
    )

    assert (status, ["expert-imbalance"]) == (verdict.status, kinds(verdict))
    assert "would have been noticed" in verdict.sentence


def test_garbage_collection_is_periodic_and_tells_its_cost():
    verdict = verdict_of(steps=30, gc_every=5)

    assert ("healthy", ["periodic"]) == (verdict.status, kinds(verdict))
    assert "garbage collection stops a worker for 0.30 s" in verdict.structure[0]["text"]
    assert 0.01 < verdict.structure[0]["share"] < 0.1


def test_steps_that_are_long_for_all_at_a_beat_are_periodic():
    trace = synth.trace(synth.Scene(steps=30))
    wall = trace.end.max(axis=(0, 1)) * np.where(np.arange(30) % 10 == 4, 1.3, 1.0)
    verdict = verdict_of_trace(replace(trace, observed=wall))

    assert ["periodic"] == kinds(verdict)
    assert "every 10 steps" in verdict.structure[0]["text"]


@pytest.mark.parametrize("dp", [2, 4])
def test_a_worker_slow_at_a_beat_is_no_beat_by_design(dp):
    on = np.where(np.arange(40) % 5 == 4, 1.6, 1.0)
    verdict = verdict_of_trace(
        changed(synth.trace(synth.Scene(dp=dp, steps=40)), slow_worker(1, 2, on))
    )

    assert [(1, 2)] == [(one.dp, one.pp) for one in verdict.culprits]
    assert [] == kinds(verdict)


def test_a_beat_by_design_is_told_beside_a_slow_worker_of_another_beat():
    trace = synth.trace(synth.Scene(steps=40))
    trace = changed(trace, slow_worker(1, 2, np.where(np.arange(40) % 4 == 1, 1.6, 1.0)))
    wall = trace.end.max(axis=(0, 1))
    pause = 0.5 * np.median(wall) * (np.arange(40) % 10 == 4)
    verdict = verdict_of_trace(replace(trace, observed=wall + pause))

    assert [(1, 2)] == [(one.dp, one.pp) for one in verdict.culprits]
    assert ["periodic"] == kinds(verdict)
    assert "every 10 steps" in verdict.structure[0]["text"]


def test_without_simulation_a_worker_slow_at_a_beat_is_named_and_no_beat_is_by_design():
    on = np.where(np.arange(40) % 5 == 4, 1.6, 1.0)
    trace = changed(synth.trace(synth.Scene(steps=40)), slow_worker(1, 2, on))
    verdict = verdict_of_trace(replace(trace, observed=1.3 * trace.end.max(axis=(0, 1))))

    assert ("degraded", "bounds", []) == (verdict.status, verdict.what_if["method"], kinds(verdict))
    assert [(1, 2)] == [(one.dp, one.pp) for one in verdict.culprits]


def test_a_slowdown_of_all_is_uniform_and_blames_nobody():
    slow = tuple(synth.Slow(dp, stage, 1.2, 15) for dp in range(4) for stage in range(4))
    verdict = verdict_of(steps=30, slow=slow)

    assert ("degraded", (), ["uniform"]) == (verdict.status, verdict.culprits, kinds(verdict))
    assert "from step 15" in verdict.sentence
    assert 1.19 == pytest.approx(verdict.slowdown, abs=0.01)
    assert verdict.lost_gpu_hours > 0


def test_a_slowdown_of_all_is_uniform_beside_sequences_of_unequal_length():
    slow = tuple(synth.Slow(dp, stage, 1.3, 20) for dp in range(4) for stage in range(4))
    verdict = verdict_of(steps=40, lengths=1.5, slow=slow)

    assert ("degraded", ()) == (verdict.status, verdict.culprits)
    assert {"uniform", "sequence-length-imbalance"} == set(kinds(verdict))


@pytest.mark.parametrize("pp", [2, 4])
def test_with_one_replica_a_slowdown_of_all_stages_is_uniform(pp):
    slow = tuple(synth.Slow(0, stage, 1.3, 20) for stage in range(pp))
    verdict = verdict_of(dp=1, pp=pp, steps=40, slow=slow)

    assert ("degraded", (), ["uniform"]) == (verdict.status, verdict.culprits, kinds(verdict))


def test_where_every_worker_is_slow_nothing_is_told_of_lengths():
    trace = synth.trace(synth.Scene(dp=1, lengths=1.8))
    found = trace_cells(trace)
    facts = Facts(trace, None, trace.duration, found, np.ones((4, 1), dtype=bool))

    assert () == length_imbalance(facts)


def test_an_even_run_has_no_structure():
    assert [] == kinds(verdict_of())


@pytest.mark.parametrize("slower", [1.0, 1.4])
def test_a_worker_of_which_a_third_is_not_timed_may_be_the_slow_one(slower):
    trace = synth.trace(synth.Scene())
    steps = len(trace.steps)
    factor = np.where(np.arange(steps) < steps // 2, 1.0, slower)
    trace = changed(trace, lambda run, rows: factor)
    duration = trace.duration.copy()
    compute = trace.of(*COMPUTE) & (trace.stage == 1)
    duration[np.ix_(compute, [2], np.arange(steps) % 3 == 0)] = 0.0
    verdict = verdict_of_trace(replace(trace, duration=duration))

    assert ("unknown", (), ()) == (verdict.status, verdict.culprits, verdict.structure)
    assert "own time of rank 6 is known for 13 of 20 steps only" in verdict.sentence
    assert "fault" not in verdict.sentence
    assert "blame" not in verdict.sentence
