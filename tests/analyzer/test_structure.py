"""Structure is named, its cost simulated, and nobody blamed."""

from dataclasses import replace

import numpy as np
import pytest

from analyzer import synth
from analyzer.foreign import examine
from analyzer.whatif.dependencies import build
from analyzer.whatif.edit import retimed
from analyzer.whatif.kinds import COMPUTE
from analyzer.whatif.work import split


def verdict_of(**scene):
    return examine(synth.trace(synth.Scene(**scene)))


def kinds(verdict):
    return [one["kind"] for one in verdict.structure]


def changed(trace, change):
    """The run with other own times of computations; `change` gets (K', D, S) and the rows."""
    graph = build(trace)
    own = split(trace, graph).own.copy()
    rows = np.flatnonzero(trace.of(*COMPUTE))
    own[rows] *= change(rows)
    return retimed(trace, graph, own)


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


def test_experts_of_unequal_load_are_named():
    trace = synth.trace(synth.Scene())
    dice = np.random.default_rng(0)
    load = 1.5 ** dice.random((4, 8, 4, 20))
    verdict = examine(changed(trace, lambda rows: load[trace.stage[rows], trace.micro_batch[rows]]))

    assert ("healthy", ["expert-imbalance"]) == (verdict.status, kinds(verdict))


def test_garbage_collection_is_periodic_and_tells_its_cost():
    verdict = verdict_of(steps=30, gc_every=5)

    assert ("healthy", ["periodic"]) == (verdict.status, kinds(verdict))
    assert "garbage collection stops a worker for 0.30 s" in verdict.structure[0]["text"]
    assert 0.01 < verdict.structure[0]["share"] < 0.1


def test_steps_that_are_long_for_all_at_a_beat_are_periodic():
    trace = synth.trace(synth.Scene(steps=30))
    wall = trace.end.max(axis=(0, 1)) * np.where(np.arange(30) % 10 == 4, 1.3, 1.0)
    verdict = examine(replace(trace, observed=wall))

    assert ["periodic"] == kinds(verdict)
    assert "every 10 steps" in verdict.structure[0]["text"]


def test_a_slowdown_of_all_is_uniform_and_blames_nobody():
    slow = tuple(synth.Slow(dp, stage, 1.2, 15) for dp in range(4) for stage in range(4))
    verdict = verdict_of(steps=30, slow=slow)

    assert ("degraded", (), ["uniform"]) == (verdict.status, verdict.culprits, kinds(verdict))
    assert "from step 15" in verdict.sentence


def test_an_even_run_has_no_structure():
    assert [] == kinds(verdict_of())
