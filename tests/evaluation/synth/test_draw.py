"""Draws: every fault takes its turn, whatever is drawn fits together, and nothing leaks."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.draw import FORMS, TURNS, drawn
from lockstep.evaluation.synth.fleet import GPUS_PER_NODE, NETWORK, Benign
from lockstep.evaluation.synth.times import noise, spread
from lockstep.evaluation.synth.variant import VARIANTS


def test_each_cause_takes_its_turn():
    seen = {
        fault.cause for seed in range(len(TURNS)) for fault in drawn(seed, injected=True).faults
    }

    assert Cause.UNKNOWN not in FORMS
    assert set(FORMS) == seen


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from(sorted(VARIANTS)))
@settings(max_examples=60)
def test_whatever_is_drawn_fits_together(seed, injected, variant):
    fleet = drawn(seed, injected=injected, variant=variant)

    assert repr(fleet) == repr(drawn(seed, injected=injected, variant=variant))
    assert injected == bool(fleet.faults)
    assert fleet.dp >= 2
    assert fleet.world == GPUS_PER_NODE * fleet.nodes
    assert not (injected and Benign.UNIFORM in fleet.benign)
    for fault in fleet.faults:
        assert 0 <= fault.from_step < (fault.to_step or fleet.steps) <= fleet.steps
        assert not fault.factor < 1.1
        assert fleet.nodes > 1 or fault.cause not in NETWORK


def test_injected_and_healthy_runs_of_a_seed_have_other_dice():
    assert drawn(3, injected=True).seed != drawn(3, injected=False).seed


@pytest.mark.parametrize("variant", ["usual", "held-out"])
def test_noise_has_the_scale_and_the_memory_that_were_asked_for(variant):
    asked = replace(VARIANTS[variant].noise, common=0.0, spike=0.0)
    made = noise(np.random.default_rng(0), asked, 4000, 4)
    memory = np.corrcoef(made[:-1, 0], made[1:, 0])[0, 1]

    assert pytest.approx(asked.rank, rel=0.1) == made.std()
    assert pytest.approx(asked.memory, abs=0.05) == memory


def test_parts_of_a_fleet_differ_by_eight_percent_on_average_and_never_by_more_than_22():
    dice = np.random.default_rng(0)
    ranges = []
    for _ in range(300):
        parts = spread(dice, VARIANTS["usual"], 200)
        low, high = np.quantile(parts, [0.25, 0.75])
        ranges.append(min(parts.max(), high + 1.5 * (high - low)))

    assert pytest.approx(0.08, abs=0.01) == np.mean(ranges)
    assert max(ranges) <= 0.22
