"""What is normal and slows steps: work that differs, stages by design, and planned pauses."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract.words import Phase
from lockstep.evaluation.synth.fleet import Benign, SyntheticFleet

LAST_STAGE = (1.10, 1.35)
"""Own time of the stage with the embedding and the loss, over that of the others."""
LENGTHS = 0.08
"""Spread of the work of a replica's step, as logarithm: the sum over its micro-batches of squared
sequence lengths that vary (OSDI'25: 21 % of runs have such imbalance)."""
UNIFORM = (1.12, 1.30)
UNIFORM_FROM = 0.5
"""Of the run, from where all ranks compute slower: a kernel or a setting that changed."""
EVERY = (60, 160)
"""Steps between two planned pauses."""
PAUSES: dict[Benign, tuple[Phase, float, float]] = {
    Benign.EVALUATION: (Phase.EVAL, 4.0, 0.02),
    Benign.CHECKPOINT: (Phase.CHECKPOINT, 5.0, 0.15),
    Benign.GARBAGE: (Phase.OTHER, 0.3, 0.30),
}
"""Phase, length in usual steps, and its spread between ranks."""
TAGS = {Benign.EVALUATION: "eval", Benign.CHECKPOINT: "checkpoint", Benign.GARBAGE: "gc"}
WARMUP_STEPS = 3


@dataclass(frozen=True, slots=True)
class Normal:
    """Of the steps of a run.

    Attributes:
        work: (S, R) of a step over the usual.
        slower: (S, R) seconds for the same work over the usual.
        pauses: Phase -> (S, R) seconds beside the work.
        tags: (S,) as ranks tag their steps.
    """

    work: FloatGrid
    slower: FloatGrid
    pauses: dict[Phase, FloatGrid]
    tags: NDArray[np.str_]


def normal(fleet: SyntheticFleet, steps: int, dice: np.random.Generator) -> Normal:
    """What is normal of a fleet."""
    shape = (steps, fleet.world)
    work, slower = np.ones(shape), np.ones(shape)
    ranks = np.arange(fleet.world)
    if Benign.LENGTHS in fleet.benign:
        replica = ranks // fleet.tp % fleet.dp
        work = np.exp(LENGTHS * dice.standard_normal((steps, fleet.dp)))[:, replica]
    if Benign.STAGE in fleet.benign and fleet.pp > 1:
        slower[:, ranks // (fleet.tp * fleet.dp) == fleet.pp - 1] *= dice.uniform(*LAST_STAGE)
    if Benign.UNIFORM in fleet.benign:
        slower[int(UNIFORM_FROM * steps) :] *= dice.uniform(*UNIFORM)
    tags = np.full(steps, "", dtype="<U32")
    tags[:WARMUP_STEPS] = "warmup"
    pauses: dict[Phase, FloatGrid] = {}
    for kind, (phase, length, between) in PAUSES.items():
        if kind not in fleet.benign:
            continue
        every = int(dice.integers(*EVERY))
        due = np.zeros(shape, dtype=bool)
        if kind is Benign.GARBAGE:
            # Python collects when its own heap says so: no two ranks in the same step.
            due = (np.arange(steps)[:, None] + dice.integers(every, size=fleet.world)) % every == 0
        else:
            due[every::every] = True
            tags[every::every] = TAGS[kind]
        seconds = length * fleet.step_seconds * np.exp(between * dice.standard_normal(shape))
        pauses[phase] = pauses.get(phase, np.zeros(shape)) + np.where(due, seconds, 0.0)
    return Normal(work, slower, pauses, tags)
