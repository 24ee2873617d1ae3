"""Where the own time of a fault goes: the phases it lengthens, and in which steps.

The phases follow from what is broken. Everything that computes slowly lengthens forward, backward
and optimizer; PCIe carries batches in and nothing else; NVLink carries gradients, and what
tensor-parallel layers exchange inside their kernels.
"""

from collections.abc import Mapping

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract.words import Cause, Phase
from lockstep.evaluation.synth.fleet import Fault, SyntheticFleet

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
    usual: Mapping[Phase, FloatGrid], place: int, dice: np.random.Generator
) -> dict[Phase, FloatGrid]:
    """Phase -> (S,) 1 in the steps in which a stop of the process falls into it, else 0.

    It falls at any moment, and so most often into the phase that is longest.
    """
    seconds = np.stack([cells[:, place] for cells in usual.values()])
    until = np.cumsum(seconds, axis=0)
    moment = dice.random(seconds.shape[1]) * until[-1]
    which = (moment >= until).sum(axis=0)
    return {phase: (which == place).astype(float) for place, phase in enumerate(usual)}


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
