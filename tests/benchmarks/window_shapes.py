"""A rank that is 1.5x slow on and off, and one that climbs to it while ten windows are seen.

13 of each, simulated, 16 ranks: a data loader whose turns come every 16 to 80 steps of 400 (tidy,
step by step), and a run of 10 windows between scrapes of 15 s of which the climb takes the last
seven. Figures are missed ones, and others named. WINDOW_SHAPES_SEED is where the seeds begin.
"""

import os

import numpy as np

from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.fleet import Fault, Resolution, Shape, SyntheticFleet
from lockstep.evaluation.synth.whole import labelled

RUNS = 13
SEED = int(os.environ.get("WINDOW_SHAPES_SEED", "880000"))
RANKS = 16
FACTOR = 1.5
WINDOW, WINDOWS, CLIMB = 15, 10, 7
GOALS = {
    f"{kind}_{what}_of_{RUNS}": goal
    for kind in ("periodic", "ramp")
    for what, goal in (("missed", 2.0), ("others_named", 0.0))
}


def main() -> dict[str, float]:
    figures = dict.fromkeys(GOALS, 0.0)
    for number in range(RUNS):
        for kind, fleet in (("periodic", _periodic), ("ramp", _ramp)):
            seed = SEED + number
            place = int(np.random.default_rng(seed).integers(RANKS))
            named = diagnose(labelled(fleet(seed, place)).run).verdict.culprits
            ranks = {culprit.rank for culprit in named}
            figures[f"{kind}_missed_of_{RUNS}"] += place not in ranks
            figures[f"{kind}_others_named_of_{RUNS}"] += bool(ranks - {place})
    return figures


def _periodic(seed: int, place: int) -> SyntheticFleet:
    fault = Fault(Cause.DATA, "loader", place, FACTOR, 100, shape=Shape.PERIODIC)
    return SyntheticFleet(
        dp=RANKS, steps=400, resolution=Resolution.STEP, seed=seed, faults=(fault,)
    )


def _ramp(seed: int, place: int) -> SyntheticFleet:
    """As a stair of one step a window."""
    faults = tuple(
        Fault(
            Cause.DATA,
            "loader",
            place,
            1.0 + (FACTOR - 1.0) * (window + 1) / CLIMB,
            WINDOW * (WINDOWS - CLIMB + window),
            WINDOW * (WINDOWS - CLIMB + window + 1),
        )
        for window in range(CLIMB)
    )
    steps = WINDOW * WINDOWS
    return SyntheticFleet(dp=RANKS, steps=steps, step_seconds=1.0, seed=seed, faults=faults)
