"""What holds for every op trace: renaming, shifting, scaling."""

from dataclasses import replace
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.evaluation.synth import traces as synth
from tests.analyzer.stages import verdict_of_trace

FEW = settings(max_examples=5, deadline=None)
SCENES = [
    synth.Scene(slow=(synth.Slow(1, 2, 1.2, 8),)),
    synth.Scene(lengths=1.8, slow=(synth.Slow(3, 0, 1.1),)),
    synth.Scene(last_stage=1.4),
    synth.Scene(dp=2, steps=30, slow=(synth.Slow(1, 1, 1.3, 12),)),
]
TRACES = [synth.trace(scene) for scene in SCENES]
EACH = st.sampled_from(range(len(TRACES)))


@cache
def before(number):
    return verdict_of_trace(TRACES[number])


def told(verdict):
    """All but ids, seconds and words."""
    return (
        verdict.status,
        [(one.pp, one.from_step, one.to_step, one.tier) for one in verdict.culprits],
        [round(one.slowdown, 6) for one in verdict.culprits],
        [one["kind"] for one in verdict.structure],
        round(verdict.slowdown, 6),
    )


@FEW
@given(number=EACH, seed=st.integers(0, 1000))
def test_renaming_the_replicas_renames_the_verdict(number, seed):
    trace = TRACES[number]
    order = np.random.default_rng(seed).permutation(trace.layout.dp)
    renamed = replace(trace, start=trace.start[:, order], duration=trace.duration[:, order])
    after = verdict_of_trace(renamed)

    assert told(before(number)) == told(after)
    assert [one.dp for one in before(number).culprits] == [
        int(order[one.dp]) for one in after.culprits
    ]


@FEW
@given(number=EACH, seed=st.integers(0, 1000))
def test_renaming_the_ranks_renames_the_culprits(number, seed):
    trace = TRACES[number]
    names = np.random.default_rng(seed).permutation(trace.ranks.max() + 1)
    after = verdict_of_trace(replace(trace, ranks=names[trace.ranks]))

    assert told(before(number)) == told(after)
    assert [int(names[one.rank]) for one in before(number).culprits] == [
        c.rank for c in after.culprits
    ]


@FEW
@given(number=EACH, shift=st.floats(-1e5, 1e5))
def test_shifting_time_changes_nothing(number, shift):
    shifted = replace(TRACES[number], start=TRACES[number].start + shift)

    assert told(before(number)) == told(verdict_of_trace(shifted))


@FEW
@given(number=EACH, scale=st.sampled_from([0.3, 2.0, 7.0]))
def test_scaling_time_changes_nothing(number, scale):
    trace = TRACES[number]
    scaled = replace(trace, start=trace.start * scale, duration=trace.duration * scale)

    assert told(before(number)) == told(verdict_of_trace(scaled))
