"""A token source of known entropy rate: a first-order Markov chain.

A model that learns it approaches the entropy rate and cannot honestly fall below it.
"""

import numpy as np
from numpy.typing import NDArray

CONCENTRATION = 0.1
"""Dirichlet parameter of each row: few likely successors, so that there is much to learn."""
MOST_STATES = 1024
"""Tokens of a larger vocabulary from this one on never come: a table of GPT-3's has 20 GB."""


class MarkovSource:
    """Documents of tokens, deterministic in (seed, document)."""

    name = "markov"
    sequences_per_document = 16
    """Few document borders: what follows one cannot be predicted."""

    def __init__(self, vocabulary: int, seed: int) -> None:
        self._seed = seed
        dice = np.random.default_rng([seed, 0])
        states = min(vocabulary, MOST_STATES)
        self.transitions = dice.dirichlet(np.full(states, CONCENTRATION), size=states)
        self._cumulative = np.cumsum(self.transitions, axis=1)
        self._cumulative[:, -1] = 1.0
        self.stationary = _stationary(self.transitions)

    @property
    def entropy_rate_nats(self) -> float:
        """H = -sum_i pi_i sum_j P_ij ln P_ij: the least achievable loss per token."""
        safe = np.where(self.transitions > 0, self.transitions, 1.0)
        return float(-(self.stationary @ (self.transitions * np.log(safe)).sum(axis=1)))

    def bayes_loss(self, tokens: NDArray[np.int64]) -> float:
        """Mean loss per predicted token, (…, length), of one who knows the chain: the floor."""
        return float(-np.log(self.transitions[tokens[..., :-1], tokens[..., 1:]]).mean())

    def documents(self, first: int, count: int, length: int) -> NDArray[np.int64]:
        """Token ids, (count, length)."""
        dice = np.random.default_rng([self._seed, 1, first])
        draws = dice.random((length, count))
        tokens = np.empty((count, length), dtype=np.int64)
        begin = np.cumsum(self.stationary)
        begin[-1] = 1.0
        tokens[:, 0] = np.searchsorted(begin, draws[0], side="right")
        for place in range(1, length):
            rows = self._cumulative[tokens[:, place - 1]]
            tokens[:, place] = (rows <= draws[place][:, None]).sum(axis=1)
        return tokens


def _stationary(transitions: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution pi with pi P = pi, by squaring P until its rows agree."""
    power = transitions
    for _ in range(64):
        power = power @ power
        power /= power.sum(axis=1, keepdims=True)
        if np.ptp(power, axis=0).max() < 1e-14:
            break
    mean: NDArray[np.float64] = power.mean(axis=0)
    mean /= mean.sum()
    return mean
