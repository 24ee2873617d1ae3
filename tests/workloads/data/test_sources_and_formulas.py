"""Known answers: entropy rate, FLOPs, quota model, measured factors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.data.prepare import MOST_STATES, MarkovSource
from lockstep.workloads.faults.cpu_quota import StepModel, corrected
from lockstep.workloads.faults.measure import effect
from lockstep.workloads.faults.plan import Fault


def test_the_markov_source_has_the_entropy_rate_it_claims() -> None:
    source = MarkovSource(16, seed=3)
    tokens = source.documents(0, 400, 200)
    seen = -np.log(source.transitions[tokens[:, :-1], tokens[:, 1:]]).mean()

    assert source.entropy_rate_nats == pytest.approx(seen, rel=0.01)
    assert 0 < source.entropy_rate_nats < np.log(16)


def test_documents_are_deterministic_and_differ() -> None:
    first, again = (MarkovSource(64, seed=1).documents(5, 4, 65) for _ in range(2))
    source = MarkovSource(64, seed=1)

    assert (first == again).all()
    assert (first != source.documents(9, 4, 65)).any()


def test_the_stationary_distribution_is_stationary() -> None:
    source = MarkovSource(64, seed=9)

    assert np.allclose(source.stationary @ source.transitions, source.stationary, atol=1e-12)


def test_a_vocabulary_of_any_size_has_a_table_that_fits() -> None:
    source = MarkovSource(50257, seed=9)
    tokens = source.documents(0, 4, 100)

    assert (MOST_STATES, MOST_STATES) == source.transitions.shape
    assert tokens.max() < MOST_STATES
    assert 0 < source.entropy_rate_nats < np.log(MOST_STATES)


MODEL = StepModel(device=(0.012, 0.024, 0.004), cpu=(0.002, 0.003, 0.001), rest=0.001)


@given(st.floats(1.05, 8.0))
def test_the_quota_model_gives_the_factor_it_is_asked_for(factor: float) -> None:
    wanted = factor * MODEL.seconds(1.0)

    assert wanted == pytest.approx(MODEL.seconds(MODEL.share_for(wanted)), rel=1e-6)


def test_a_quota_that_bites_twice_as_hard_is_loosened_by_one_correction() -> None:
    wanted = 1.5 * MODEL.seconds(1.0)
    share = MODEL.share_for(wanted)
    loosened = corrected(MODEL, share, wanted, measured=MODEL.seconds(share / 2))

    assert 2 * share == pytest.approx(loosened, rel=1e-6)


def test_a_quota_that_does_not_bite_is_tightened() -> None:
    share = MODEL.share_for(1.5 * MODEL.seconds(1.0))

    assert corrected(MODEL, share, 0.06, measured=MODEL.seconds(1.0)) < share


FAULT = Fault(FaultKind.COMPUTE, 2, None, 1.5, from_step=50, to_step=80)


def test_the_measured_factor_ignores_warm_up_and_outliers() -> None:
    own = np.where((np.arange(100) >= 50) & (np.arange(100) < 80), 0.06, 0.04)
    own[:5] = 1.0
    own[60] = 3.0
    own[30] = 3.0

    assert effect(FAULT, np.arange(100), own).factor == pytest.approx(1.5)


def test_a_run_that_ended_before_the_fault_has_no_measured_factor() -> None:
    assert effect(FAULT, np.arange(40), np.full(40, 0.04)) is None
