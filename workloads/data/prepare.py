"""The dataset of a run: the user's own, or a synthetic one written for it."""

from pathlib import Path

from lockstep.workloads.data.indexed import IndexedDataset, IndexedError
from lockstep.workloads.data.samples import Samples
from lockstep.workloads.data.synthetic import FIRST_UNSEEN, SOURCES, Source, write_synthetic
from lockstep.workloads.spec import RunSpec, Training

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
