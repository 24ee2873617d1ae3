"""The verdict about an op trace, as JSON and in words."""

import json
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.graph import COMPUTE, SCATTER
from lockstep.analyzer.operations.whatif.simulate import retimed
from lockstep.analyzer.operations.whatif.work import split_durations
from lockstep.analyzer.shapes.verdict_json import WHAT_IF, verdict_json
from lockstep.evaluation.synth import traces as synth
from tests.analyzer.stages import verdict_of_trace


def made(**scene):
    return synth.trace(synth.Scene(**scene))


SLOW = (synth.Slow(1, 2, 1.2, 10),)


def test_the_verdict_has_every_key_of_a_simulated_one():
    tree = json.loads(json.dumps(verdict_json(verdict_of_trace(made(steps=30, slow=SLOW)))))
    culprit = tree["culprits"][0]

    assert set(WHAT_IF) <= tree["what_if"].keys()
    assert "simulation" == tree["what_if"]["method"]
    assert ("degraded", "rank", 9, 1, 2, 0, 10, None, "unknown", "page") == (
        tree["status"], *(culprit[key] for key in (
            "scope", "rank", "dp", "pp", "tp", "from_step", "to_step", "cause", "tier")),
    )  # fmt: skip


def test_the_sentence_names_the_worker_the_onset_and_the_cost():
    verdict = verdict_of_trace(made(steps=30, slow=SLOW), gpu_hour_price=2.0)

    assert verdict.sentence.startswith(
        "Rank 9 (dp 1, stage 2) is 1.20x slower than it should be from step 10: the cause is"
        " unknown. Confidence in the place high (0.99). The run's steps take 1.08x their ideal time"
    )
    assert "it computes 1.198x as long (1.19" in verdict.culprits[0].evidence[0].text
    assert "at the price given" in verdict.sentence
    assert 2.0 * verdict.lost_gpu_hours == verdict.lost_money


def test_of_two_culprits_the_hidden_one_pages_too():
    verdict = verdict_of_trace(made(slow=(synth.Slow(1, 2, 1.2), synth.Slow(3, 2, 1.2))))

    assert ["page", "page"] == [one.tier for one in verdict.culprits]


def test_the_replica_that_the_others_wait_for_gives_confidence():
    first, second = verdict_of_trace(
        made(slow=(synth.Slow(1, 2, 1.3), synth.Slow(3, 0, 1.1)))
    ).culprits

    assert (1, 3) == (first.dp, second.dp)
    assert first.place_confidence > second.place_confidence
    assert [True, False] == [one.evidence[1].supports for one in (first, second)]


def test_a_periodic_culprit_is_waited_for_in_its_slow_steps():
    slow = tuple(synth.Slow(1, 2, 1.4, step, step + 1) for step in range(4, 40, 5))
    (one,) = verdict_of_trace(made(steps=40, slow=slow)).culprits

    assert (0.99, True) == (one.place_confidence, one.evidence[1].supports)
    assert "the other replicas wait for replica 1" in one.evidence[1].text


def test_too_few_peers_are_said_and_its_own_past_decides():
    verdict = verdict_of_trace(made(dp=2, steps=30, slow=(synth.Slow(1, 2, 1.2, 15),)))
    (one,) = verdict.culprits

    assert (1, 2) == (one.dp, one.pp)
    assert "Confidence in the place " in verdict.sentence
    assert "its own past, because it has too few peers" in one.evidence[0].text
    assert any("two replicas" in one for one in verdict.missing)


def test_one_replica_without_change_is_unknown():
    verdict = verdict_of_trace(made(dp=1))

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "looks like a heavy stage" in verdict.sentence


def test_of_two_replicas_that_always_differed_nobody_knows_which_is_normal():
    verdict = verdict_of_trace(made(dp=2, slow=(synth.Slow(1, 2, 1.3),)))

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "rank 5 takes 1.30x the own time of its only peer, rank 4" in verdict.sentence


def longer_transfers(steps):
    """A run of 30 steps, in some of which gradients take 2 s more."""
    trace = made(steps=30)
    graph = build(trace)
    own = split_durations(trace, graph).own.copy()
    own[np.flatnonzero(trace.of(SCATTER)), :, steps] += 2.0
    return verdict_of_trace(retimed(trace, graph, own))


def test_a_pause_of_a_few_steps_in_the_network_is_no_change_of_the_run():
    assert "healthy" == longer_transfers(slice(10, 13)).status


def test_a_run_that_became_slower_by_its_transfers_is_not_healthy_and_names_nobody():
    verdict = longer_transfers(slice(15, None))

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "from step 15, not all ranks alike" in verdict.sentence
    assert 1.1 < verdict.slowdown < 1.3


def test_of_tensor_parallel_ranks_that_a_trace_folds_it_is_said_that_they_are_meant_too():
    trace = made(steps=30, slow=SLOW)
    folded = replace(trace, layout=replace(trace.layout, tp=4), ranks=trace.ranks * 4)
    verdict = verdict_of_trace(folded)

    assert [(36, None, None)] == [(one.rank, one.tp, one.node) for one in verdict.culprits]
    assert "Rank 36 (dp 1, stage 2, with its tensor-parallel peers) is " in verdict.sentence


def test_who_would_have_been_noticed_is_noticed_in_nine_of_ten_runs():
    small = {"dp": 4, "pp": 2, "micro_batches": 4, "steps": 20, "noise": 0.03}
    found = 0
    for seed in range(10):
        told = verdict_of_trace(made(seed=seed, **small)).sentence
        noticed = float(re.search(r"became slower by (\d\.\d\d)x for half of it", told)[1])
        slow = (synth.Slow(2, 1, noticed, 10),)
        named = verdict_of_trace(made(seed=seed, slow=slow, **small)).culprits
        found += [(2, 1)] == [(one.dp, one.pp) for one in named]

    assert found >= 9


def test_durations_name_who_is_slow_where_operations_explain_only_part_of_the_step():
    trace = made(slow=SLOW)
    verdict = verdict_of_trace(replace(trace, observed=1.2 * trace.end.max(axis=(0, 1))))

    assert ("degraded", [9], "bounds") == (
        verdict.status, [one.rank for one in verdict.culprits], verdict.what_if["method"],
    )  # fmt: skip
    assert "simulated and observed step time differ by" in verdict.what_if["why"]
    assert ["rank 9"] == [one["remove"] for one in verdict.what_if["fixes"]]


def test_delays_that_no_operation_shows_name_nobody():
    trace = made(steps=30)
    verdict = verdict_of_trace(replace(trace, observed=1.2 * trace.end.max(axis=(0, 1))))

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "simulated and observed step time differ by" in verdict.sentence


def test_a_cost_by_bounds_counts_the_ranks_that_a_trace_folds():
    trace = made(slow=SLOW)
    trace = replace(trace, observed=1.2 * trace.end.max(axis=(0, 1)))
    folded = replace(trace, layout=replace(trace.layout, tp=4), ranks=trace.ranks * 4)

    assert 4 * verdict_of_trace(trace).lost_gpu_hours == pytest.approx(
        verdict_of_trace(folded).lost_gpu_hours
    )


@pytest.mark.parametrize("observed", [1.0, 1.3])
def test_all_that_became_slower_beside_a_slow_worker_are_not_all_alike(observed):
    """Whether it is known what the worker costs or not."""
    slow = tuple(
        synth.Slow(dp, stage, 1.56 if (dp, stage) == (1, 1) else 1.2, 15)
        for dp in range(4)
        for stage in range(2)
    )
    trace = made(dp=4, pp=2, micro_batches=4, steps=30, slow=slow)
    end = trace.end.max(axis=(0, 1))
    verdict = verdict_of_trace(replace(trace, observed=observed * end))
    worker = trace.worker(1, 1)

    assert ("degraded", [worker]) == (verdict.status, [one.rank for one in verdict.culprits])
    assert not [one for one in verdict.structure if one["kind"] == "uniform"]
    assert "no node is to blame" not in verdict.sentence


def test_a_pause_in_nobodys_computations_names_nobody():
    trace = made(dp=4, pp=2, micro_batches=4, steps=30)
    graph = build(trace)
    own = split_durations(trace, graph).own.copy()
    own[np.flatnonzero(trace.of(SCATTER)), :, 5:29:9] += 20.0
    verdict = verdict_of_trace(retimed(trace, graph, own))

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "stood still" in verdict.sentence
    assert "away the longest" not in verdict.sentence


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        ({"steps": 1}, "one step shows nothing about noise"),
        ({"steps": 5}, "5 steps show nothing about noise; it takes 6"),
        ({"dp": 1, "pp": 1}, "the trace has one worker"),
    ],
)
def test_too_little_is_unknown_in_one_sentence(scene, words):
    verdict = verdict_of_trace(made(**scene))

    assert "unknown" == verdict.status
    assert words in verdict.sentence


def test_computations_without_duration_are_unknown():
    trace = made()
    verdict = verdict_of_trace(replace(trace, duration=np.zeros_like(trace.duration)))

    assert ("unknown", (), 0.0) == (verdict.status, verdict.culprits, verdict.coverage)


def test_a_worker_of_which_nothing_was_timed_may_be_the_slow_one():
    trace = made()
    duration = trace.duration.copy()
    duration[np.ix_(trace.of(*COMPUTE) & (trace.stage == 1), [2])] = 0.0
    verdict = verdict_of_trace(replace(trace, duration=duration))

    assert ("unknown", (), ()) == (verdict.status, verdict.culprits, verdict.rejected)
    assert "no computation of rank 6 has a duration" in verdict.sentence


def test_what_is_not_known_has_no_number():
    verdict = verdict_of_trace(made(steps=5), gpu_hour_price=2.0)

    assert (None, None, None, None) == (
        verdict.slowdown, verdict.slowdown_interval, verdict.lost_gpu_hours, verdict.lost_money,
    )  # fmt: skip


def test_steps_that_lack_operations_are_not_known_to_be_well():
    few, most = (verdict_of_trace(replace(made(), coverage=share)) for share in (0.5, 0.9))

    assert ("unknown", "healthy") == (few.status, most.status)
    assert "is known for 20 of 40 steps only" in few.sentence


def test_gaps_in_the_computations_never_give_nan_in_the_verdict():
    trace = made(slow=SLOW, steps=30)
    for lost in (0.1, 0.5, 0.95):
        dice = np.random.default_rng(3)
        duration = np.where(dice.random(trace.duration.shape) < lost, 0.0, trace.duration)
        text = json.dumps(
            verdict_json(verdict_of_trace(replace(trace, duration=duration))), allow_nan=False
        )

        assert not re.search(r"\bnan\b", text, re.IGNORECASE)


# What holds for every op trace: renaming, shifting, scaling.

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
