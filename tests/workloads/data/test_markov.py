"""The Markov source: documents of a known entropy rate."""

import numpy as np
import pytest

from lockstep.workloads.data.prepare import MOST_STATES, MarkovSource


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
