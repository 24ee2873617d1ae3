"""The dataset of a run: the user's own, or a synthetic one written for it."""

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lockstep.workloads.data.indexed import IndexedDataset, IndexedError, Samples, write
from lockstep.workloads.spec import RunSpec, Training

# Synthetic datasets in Megatron's files have a known least loss.
#
# `markov` is a first-order Markov chain: a model that learns it approaches the entropy rate and
# cannot fall below it. `copy` needs attention: the second half of each document repeats the first,
# and without attention, or with wrong positions, nothing of that half can be predicted.

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
        for position in range(1, length):
            rows = self._cumulative[tokens[:, position - 1]]
            tokens[:, position] = (rows <= draws[position][:, None]).sum(axis=1)
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


class CopySource:
    """Documents of uniformly random tokens and their repetition."""

    name = "copy"
    sequences_per_document = 1
    """A sample is a document, or its second half could not be seen to repeat the first."""

    def __init__(self, vocabulary: int, seed: int) -> None:
        self._vocabulary = vocabulary
        self._seed = seed

    @property
    def entropy_rate_nats(self) -> float:
        """Ln V / 2: the first half cannot be guessed, the second can be known."""
        return float(np.log(self._vocabulary) / 2)

    def documents(self, first: int, count: int, length: int) -> NDArray[np.int64]:
        """Token ids, (count, length); length is even."""
        dice = np.random.default_rng([self._seed, 2, first])
        half = dice.integers(0, self._vocabulary, size=(count, length // 2))
        return np.concatenate((half, half), axis=1)


MAX_SAMPLES = 16384
"""Samples of an epoch at most; a longer run sees them again in another order."""
BLOCK_TOKENS = 1 << 16
FIRST_UNSEEN = 1 << 32
"""A document of this number and above is never trained on."""


class Source(Protocol):
    """Makes documents of tokens."""

    @property
    def sequences_per_document(self) -> int:
        """Samples that one document is long."""
        ...

    @property
    def entropy_rate_nats(self) -> float:
        """The least achievable loss per token."""
        ...

    def documents(self, first: int, count: int, length: int) -> NDArray[np.int64]:
        """Token ids, (count, length)."""
        ...


SOURCES: dict[str, type[MarkovSource] | type[CopySource]] = {
    source.name: source for source in (MarkovSource, CopySource)
}
"""By name."""


def write_synthetic(
    prefix: Path, source: Source, samples: int, sequence: int, vocabulary: int, first: int = 0
) -> None:
    """Write enough documents for so many samples, or MAX_SAMPLES, from a document on.

    Raises:
        OSError: The files cannot be written.
    """
    length = sequence * source.sequences_per_document
    # The last sample predicts one token of a document after it.
    count = min(samples, MAX_SAMPLES) // source.sequences_per_document + 2
    block = max(1, BLOCK_TOKENS // length)
    documents = (
        document
        for done in range(0, count, block)
        for document in source.documents(first + done, min(block, count - done), length)
    )
    write(prefix, documents, vocabulary)


LOOKED_AT = 1 << 20
"""Tokens of a dataset that are looked at before a run."""
VALIDATION_SAMPLES = 64
"""Of a synthetic dataset, kept apart from those that are trained on."""


def prepared(spec: RunSpec, workspace: Path) -> Path:
    """Path of the run's indexed dataset, without `.bin` and `.idx`.

    Raises:
        OSError: A synthetic one cannot be written.
    """
    source = _source(spec)
    if source is None:
        return Path(spec.training.data)
    config = spec.training.config
    prefix = workspace / "data" / spec.training.data
    samples = spec.steps * spec.training.samples * spec.layout.dp
    write_synthetic(prefix, source, samples, config.sequence, config.vocabulary)
    if spec.training.eval_every:
        write_synthetic(
            validation(prefix), source, VALIDATION_SAMPLES, config.sequence, config.vocabulary,
            first=FIRST_UNSEEN,
        )  # fmt: skip
    return prefix


def validation(prefix: Path) -> Path:
    """Where the validation data of a dataset are, without `.bin` and `.idx`."""
    return prefix.with_name(f"{prefix.name}-validation")


def check(training: Training) -> None:
    """Look at the user's own dataset before any rank starts; a synthetic one is not made yet.

    Raises:
        IndexedError: A file is missing or broken, holds too little, or tokens of another
            vocabulary (its first tokens are looked at; a rank looks at each batch).
    """
    if training.data in SOURCES:
        return
    prefix = Path(training.data)
    _check(prefix, training)
    if training.eval_every:
        _check(validation(prefix), training)


def _check(prefix: Path, training: Training) -> None:
    config = training.config
    documents = IndexedDataset(prefix)
    Samples(documents, config.sequence, seed=0)
    tokens = documents.tokens(int(documents.lengths.argmax()), 0, LOOKED_AT)
    if tokens.min() < 0:
        raise IndexedError(f"{prefix} has the token {tokens.min()}; the least is 0")
    if tokens.max() >= config.vocabulary:
        raise IndexedError(
            f"{prefix} has the token {tokens.max()}, and the vocabulary of {config.name} is"
            f" {config.vocabulary}; give --vocabulary {tokens.max() + 1} or more"
        )


def least_loss(spec: RunSpec) -> float | None:
    """The least achievable loss per token in nats; None where nobody knows it."""
    source = _source(spec)
    return None if source is None else source.entropy_rate_nats


def _source(spec: RunSpec) -> Source | None:
    make = SOURCES.get(spec.training.data)
    return None if make is None else make(spec.training.config.vocabulary, spec.seed)
