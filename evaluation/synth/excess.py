"""What lengthens steps: faults by phase, and normal work: stages by design, planned pauses."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract.words import Cause, Phase
from lockstep.evaluation.synth.fleet import Benign, Fault, SyntheticFleet

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


# The phases that a fault lengthens, and in which steps.
#
# The phases follow from what is broken. Everything that computes slowly lengthens forward, backward
# and optimizer; PCIe carries batches in and nothing else; NVLink carries gradients, and what
# tensor-parallel layers exchange inside their kernels.

COMPUTE: Mapping[Phase, float] = {Phase.FORWARD: 0.32, Phase.BACKWARD: 0.64, Phase.OPTIMIZER: 0.04}
"""Backward is twice forward (two matrix products for one)."""
HOST: Mapping[Phase, float] = {
    Phase.FORWARD: 0.40, Phase.BACKWARD: 0.25, Phase.OPTIMIZER: 0.20, Phase.OTHER: 0.15,
}  # fmt: skip
"""Gaps before kernels are launched: forward suffers most, backward is launched ahead."""
PHASES: Mapping[Cause, Mapping[Phase, float]] = {
    Cause.DATA: {Phase.DATA: 1.0},
    Cause.PCIE: {Phase.DATA: 0.75, Phase.OTHER: 0.25},
    Cause.GC: {Phase.OTHER: 1.0},
    Cause.CHECKPOINT: {Phase.CHECKPOINT: 1.0},
    Cause.HOST_CPU: HOST,
}
FUSED: Mapping[Phase, float] = {Phase.FORWARD: 0.20, Phase.BACKWARD: 0.20, Phase.GRAD_SYNC: 0.60}
COPIES: Mapping[Phase, float] = {Phase.GRAD_SYNC: 1.0}
STOPPED = 0.4
"""A CPU quota stops a rank in about two of five steps: a period of 100 ms is shorter than a step,
and its credit lasts over some."""
COLLECT_EVERY = 5
"""Steps between the garbage collections of a rank whose heap grows."""


def phases(fault: Fault, fleet: SyntheticFleet) -> Mapping[Phase, float]:
    """Phase -> share of the excess, sums to 1."""
    if fault.cause is Cause.NVLINK:
        return FUSED if fleet.tp > 1 else COPIES
    return PHASES.get(fault.cause, COMPUTE)


def stopped_in(
    usual: Mapping[Phase, FloatGrid], rank: int, dice: np.random.Generator
) -> dict[Phase, FloatGrid]:
    """Phase -> (S,) 1 in the steps in which a stop of the process falls into it, else 0.

    It falls at any moment, and so most often into the phase that is longest.
    """
    seconds = np.stack([cells[:, rank] for cells in usual.values()])
    until = np.cumsum(seconds, axis=0)
    moment = dice.random(seconds.shape[1]) * until[-1]
    which = (moment >= until).sum(axis=0)
    return {phase: (which == index).astype(float) for index, phase in enumerate(usual)}


def rhythm(fault: Fault, steps: int, dice: np.random.Generator) -> FloatGrid:
    """(S,) excess of each step over the mean excess; mean 1."""
    if fault.cause is Cause.GC:
        made = np.zeros(steps)
        made[int(dice.integers(COLLECT_EVERY)) :: COLLECT_EVERY] = COLLECT_EVERY
        return made
    if fault.cause is Cause.HOST_CPU and fault.form == "quota":
        return (dice.random(steps) < STOPPED) / STOPPED
    if fault.cause in (Cause.DATA, Cause.HOST_CPU):
        drawn: FloatGrid = dice.gamma(4.0, 0.25, steps)
        return drawn
    return np.ones(steps)
