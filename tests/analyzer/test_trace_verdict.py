"""The verdict about an op trace, as JSON and in words."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from analyzer import synth
from analyzer.trace_verdict import verdict_of_trace
from analyzer.verdict_json import WHAT_IF, verdict_json


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

    assert verdict.sentence.startswith("Rank 9 (dp 1, stage 2) computes 1.198x as long (1.19")
    assert "from step 10: the cause is not known. Confidence in the place high" in verdict.sentence
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

    assert [(1, 2)] == [(one.dp, one.pp) for one in verdict.culprits]
    assert "Confidence in the place " in verdict.sentence
    assert "its own past, because it has too few peers" in verdict.sentence
    assert any("two replicas" in one for one in verdict.missing)


def test_one_replica_without_change_is_unknown():
    verdict = verdict_of_trace(made(dp=1))

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "looks like a heavy stage" in verdict.sentence


def test_operations_that_explain_only_part_of_the_step_are_refused():
    trace = made(slow=SLOW)
    verdict = verdict_of_trace(replace(trace, observed=1.2 * trace.end.max(axis=(0, 1))))

    assert ("unknown", (), "none") == (
        verdict.status, verdict.culprits, verdict.what_if["method"],
    )  # fmt: skip
    assert "simulated and observed step time differ by" in verdict.sentence
    assert [9] == [one.rank for one in verdict.rejected]


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        ({"steps": 1}, "one step tells nothing about noise"),
        ({"steps": 5}, "5 steps tell nothing about noise; it takes 6"),
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

    assert ("unknown", ()) == (verdict.status, verdict.culprits)


def test_gaps_in_the_computations_never_give_nan_in_the_verdict():
    trace = made(slow=SLOW, steps=30)
    for lost in (0.1, 0.5, 0.95):
        dice = np.random.default_rng(3)
        duration = np.where(dice.random(trace.duration.shape) < lost, 0.0, trace.duration)
        text = json.dumps(
            verdict_json(verdict_of_trace(replace(trace, duration=duration))), allow_nan=False
        )

        assert not re.search(r"\bnan\b", text, re.IGNORECASE)
