"""Synthetic op traces are what was asked for, and the same again from the same seed."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.analyzer.shapes.operations import program
from lockstep.evaluation.synth import traces as synth

SCENE = synth.Scene(dp=2, pp=2, micro_batches=4, steps=6, noise=0.0)


def _seconds(trace, optype, dp, stage):
    return trace.duration[trace.of(optype) & (trace.stage == stage), dp]


def test_a_seed_gives_the_same_trace():
    scene = replace(SCENE, noise=0.1, lengths=2.0)
    one, other = synth.trace(scene), synth.trace(scene)

    assert np.array_equal(one.start, other.start)
    assert not np.array_equal(one.start, synth.trace(replace(scene, seed=1)).start)


def test_only_the_slow_worker_computes_longer_and_only_then():
    slow = synth.Slow(dp=1, stage=0, factor=1.5, from_step=2, to_step=4)
    one, other = synth.trace(SCENE), synth.trace(replace(SCENE, slow=(slow,)))
    ratio = _seconds(other, "backward-compute", 1, 0) / _seconds(one, "backward-compute", 1, 0)

    assert pytest.approx(np.tile([1, 1, 1.5, 1.5, 1, 1], (4, 1))) == ratio
    for dp, stage in ((0, 0), (0, 1), (1, 1)):
        same = [_seconds(trace, "forward-compute", dp, stage) for trace in (one, other)]
        assert pytest.approx(same[0]) == same[1]


def test_the_last_stage_is_heavier_by_design():
    trace = synth.trace(replace(SCENE, last_stage=1.3))
    first, last = (_seconds(trace, "forward-compute", 0, stage) for stage in (0, 1))

    assert pytest.approx(1.3) == (last / first)


def test_a_long_micro_batch_is_long_on_every_stage_both_ways():
    trace = synth.trace(replace(SCENE, lengths=2.0))
    forward = [_seconds(trace, "forward-compute", 1, stage) for stage in (0, 1)]
    backward = _seconds(trace, "backward-compute", 1, 0)

    assert pytest.approx(forward[0]) == forward[1]
    assert pytest.approx(2 * forward[0]) == backward
    assert 1.5 < forward[0].max() / forward[0].min() <= 2


def test_garbage_is_collected_by_each_worker_in_its_own_steps():
    trace = synth.trace(replace(SCENE, dp=8, gc_every=3))
    times = trace.duration[trace.of("gc")]

    assert {0.0, synth.GC_SECONDS} == set(np.round(times, 9).reshape(-1))
    assert (2 == (times > 0).sum(axis=2)).all()
    assert (times > 0).any(axis=(0, 1)).all()


def test_operations_of_a_stream_do_not_overlap():
    trace = synth.trace(replace(SCENE, noise=0.2, lengths=2.0, pp=4))
    for stage in range(4):
        rows = trace.of("forward-compute", "backward-compute") & (trace.stage == stage)
        assert (trace.start[rows][1:] >= trace.end[rows][:-1] - 1e-9).all()


@pytest.mark.parametrize(("pp", "vpp"), [(1, 1), (4, 1), (2, 2), (4, 3)])
def test_every_stage_computes_every_micro_batch_and_chunk_both_ways(pp, vpp):
    for stage in range(pp):
        done = [one for one in program(stage, pp, vpp, 8, dp=1) if "compute" in one.optype]
        assert 2 * 8 * vpp == len(set(done)) == len(done)
        for one in done:
            if one.optype == "backward-compute":
                before = replace(one, optype="forward-compute")
                assert done.index(before) < done.index(one)
