"""What if nobody had straggled: structure, workers, intervals, and when not to answer."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.operations.whatif.analysis import Unexplained, WhatIf, analyze, document
from lockstep.analyzer.operations.whatif.slowdown import worst_workers
from lockstep.analyzer.operations.whatif.trust import of_ratio, weights
from lockstep.evaluation.synth import traces as synth

FEW = settings(max_examples=8, deadline=None)
SLOW = synth.Slow(dp=1, stage=2, factor=1.3)


def _found(**scene):
    found = analyze(synth.trace(synth.Scene(**scene)))
    assert isinstance(found, WhatIf)
    return found


def test_identical_workers_lose_nothing():
    found = _found(noise=0.0)

    assert pytest.approx(1.0) == found.s
    assert pytest.approx(1.0) == found.s_strata
    assert (None, None) == (found.published.worst.rem, found.published.worst.add)
    assert all(abs(one.gain) < 1e-9 for one in found.candidates)
    assert all(one.rem is None for one in found.candidates)


@pytest.mark.parametrize("structure", [{"last_stage": 1.3}, {"lengths": 2.0}], ids=str)
def test_structure_is_in_s_and_not_in_our_own(structure):
    found = _found(**structure)

    assert 1.1 < found.s
    assert 1.01 > found.s_strata
    assert all(one.gain < 0.01 for one in found.candidates)


@pytest.mark.parametrize("structure", [{}, {"last_stage": 1.3}, {"lengths": 2.0}], ids=str)
@pytest.mark.parametrize("layout", [{"dp": 4, "pp": 4}, {"dp": 8, "pp": 3}], ids=str)
def test_a_slow_worker_is_the_first_to_fix_whatever_the_structure(layout, structure):
    found = _found(slow=(SLOW,), **layout, **structure)
    first, second = found.candidates[:2]

    assert (1, 2) == (first.dp, first.stage)
    assert 0 < first.interval[0] < first.gain < first.interval[1]
    assert first.gain > 5 * second.gain


def test_interleaved_too():
    found = _found(dp=4, pp=4, vpp=2, last_stage=1.3, slow=(SLOW,))

    assert (1, 2) == (found.candidates[0].dp, found.candidates[0].stage)


def test_fixing_the_only_slow_worker_gives_the_healthy_time():
    slow, healthy = _found(noise=0.0, slow=(SLOW,)), _found(noise=0.0)
    expected = 1 - healthy.trust.simulated.mean() / slow.trust.simulated.mean()

    assert pytest.approx(expected) == slow.candidates[0].gain


def test_two_slow_workers_are_the_first_two():
    found = _found(dp=8, slow=(SLOW, synth.Slow(dp=5, stage=0, factor=1.5)))

    assert {(1, 2), (5, 0)} == {(one.dp, one.stage) for one in found.candidates[:2]}


def test_a_worker_behind_a_slower_one_gains_nothing_alone_but_has_its_share():
    found = _found(dp=8, slow=(SLOW, synth.Slow(dp=5, stage=0, factor=2.0)))
    second = next(one for one in found.candidates if (1, 2) == (one.dp, one.stage))

    assert second.gain < 0.01 < second.alone
    assert pytest.approx(second.alone / 2, abs=0.005) == second.share


def test_parts_of_a_slow_worker_are_in_its_row_and_column():
    found = _found(slow=(SLOW,)).published

    assert (1, 2) == np.unravel_index(found.s_workers.argmax(), found.s_workers.shape)
    assert ((1, 2),) == found.worst.workers
    assert 0.9 < found.worst.rem < 1.1
    assert found.s_types["backward-compute"] == max(found.s_types.values())


def test_intervals_hold_the_value():
    found = _found(slow=(SLOW,), noise=0.05)

    assert found.s_interval[0] < found.s < found.s_interval[1]
    assert found.s_strata_interval[0] < found.s_strata < found.s_strata_interval[1]


@pytest.mark.parametrize("steps", [1, 5])
def test_few_steps_give_no_intervals(steps):
    found = _found(steps=steps, slow=(SLOW,))

    assert (None, None) == (found.s_interval, found.m_w_interval)
    assert f"{steps} steps are too few for intervals" in found.notes


def test_a_ratio_to_nothing_has_no_interval():
    assert of_ratio(np.ones(9), np.zeros(9), weights(9)) is None


def test_one_worker_is_not_compared():
    found = analyze(synth.trace(synth.Scene(dp=1, pp=1)))

    assert isinstance(found, Unexplained)
    assert "one worker" in found.why


def test_time_that_operations_do_not_show_is_refused():
    trace = synth.trace(synth.Scene(micro_batches=4))
    gap = np.where(trace.of("optimizer"), 0.3, 0.0)[:, None, None]
    found = analyze(replace(trace, start=trace.start + gap))

    assert isinstance(found, Unexplained)
    assert "simulated and observed step time differ by" in found.why


def test_a_trace_that_contradicts_the_model_is_refused():
    trace = synth.trace(synth.Scene(micro_batches=4))
    early = trace.of("grads-reduce-scatter", "optimizer-clip-main-grad", "optimizer")
    start = np.where(early[:, None, None], trace.start * 0.5, trace.start)
    found = analyze(replace(trace, start=start))

    assert isinstance(found, Unexplained)
    assert "the dependency model does not fit this trace" in found.why


def test_a_trace_without_transfers_is_refused():
    trace = synth.trace(synth.Scene(pp=2))
    found = analyze(replace(trace, optype=np.where(trace.of("gc"), "tp-all-gather", trace.optype)))

    assert isinstance(found, Unexplained)
    assert "no place for the operation tp-all-gather" in found.why


def test_of_equal_workers_the_lower_rank_is_worse():
    ranks = np.array([[0, 4], [2, 6]])

    assert ((1, 0),) == worst_workers(np.array([[1.0, 1.2], [1.2, 1.1]]), ranks)
    assert 2 == len(worst_workers(np.ones((17, 2)), np.arange(34).reshape(17, 2)))


@FEW
@given(factor=st.floats(1e-3, 1e3), seed=st.integers(0, 99))
def test_other_units_change_nothing(factor, seed):
    trace = synth.trace(synth.Scene(dp=2, pp=2, seed=seed, steps=5, micro_batches=3, lengths=1.5))
    scaled = replace(trace, start=trace.start * factor, duration=trace.duration * factor)
    one, other = analyze(trace), analyze(scaled)

    assert pytest.approx(one.s, rel=1e-9) == other.s
    assert pytest.approx(one.published.s_types) == other.published.s_types


@FEW
@given(order=st.permutations(range(4)), seed=st.integers(0, 99))
def test_renaming_replicas_renames_the_results(order, seed):
    scene = synth.Scene(pp=3, seed=seed, steps=5, micro_batches=3, slow=(SLOW,))
    trace = synth.trace(scene)
    renamed = replace(trace, start=trace.start[:, order], duration=trace.duration[:, order])
    one, other = analyze(trace), analyze(renamed)

    assert pytest.approx(one.published.s_dp[order]) == other.published.s_dp
    assert pytest.approx(one.s_strata) == other.s_strata
    assert order.index(one.candidates[0].dp) == other.candidates[0].dp


@FEW
@given(seed=st.integers(0, 99), more=st.floats(1.0, 3.0))
def test_slowing_a_slow_worker_more_never_clears_it(seed, more):
    scene = synth.Scene(dp=3, pp=3, seed=seed, steps=5, micro_batches=3)
    slow = synth.Slow(1, 2, 1.3)
    slower = replace(slow, factor=slow.factor * more)
    one, other = _gain(replace(scene, slow=(slow,))), _gain(replace(scene, slow=(slower,)))

    assert 0 < one <= other + 1e-6


def _gain(scene):
    found = analyze(synth.trace(scene)).candidates[0]
    assert (1, 2) == (found.dp, found.stage)
    return found.gain


def test_the_document_is_plain_json():
    found = _found(slow=(SLOW,))
    told = document(found, lambda dp, stage: f"node-{stage * 4 + dp}")

    assert told == json.loads(json.dumps(told, allow_nan=False))
    assert ["method", "S", "S_t", "S_dp", "S_pp", "M_W", "M_S", "fixes"] == list(told)[:8]
    assert "node-9" == told["fixes"][0]["remove"]
    assert told["M_W"] == pytest.approx(1, abs=0.1)
    assert found.published.s_steps.tolist() == told["S_steps"]
    assert told["S"] == pytest.approx(np.mean(told["S_steps"]))


def test_the_document_of_a_refusal_says_why():
    told = document(analyze(synth.trace(synth.Scene(dp=1, pp=1))))

    assert ["method", "why"] == list(told)
    assert "none" == told["method"]


def test_a_step_without_time_is_refused():
    trace = synth.trace(synth.Scene())
    found = analyze(replace(trace, observed=np.zeros(len(trace.steps))))

    assert isinstance(found, Unexplained)
    assert "takes no time" in found.why
