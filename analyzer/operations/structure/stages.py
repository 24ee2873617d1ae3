"""Stage imbalance: one part of the model is heavier than the others, on every replica alike."""

from collections.abc import Sequence

import numpy as np

from lockstep.analyzer.operations.structure.facts import ALIKE, LONGER, Facts, Structure
from lockstep.analyzer.shapes.operations import Floats

REPLICAS = 2
"""With one replica, a heavy stage and a slow worker are the same."""


def find(facts: Facts) -> Sequence[Structure]:
    """The stages that are heavier by design, as one Structure; none with one stage or replica."""
    ratio = excess(facts)
    if ratio is None:
        return ()
    heavy = np.flatnonzero(ratio >= LONGER)
    if not len(heavy):
        return ()
    usual = facts.cells.stage_steps.mean(axis=1)
    level = usual.mean() / usual
    factor = level[facts.trace.stage][:, None, None]
    heaviest = int(heavy[np.argmax(ratio[heavy])])
    rest = [f"stage {stage} by {ratio[stage]:.0%}" for stage in heavy if stage != heaviest]
    also = f", {' and '.join(rest)}" if rest else ""
    text = (
        f"stage {heaviest} computes {ratio[heaviest]:.0%} longer than the other stages{also},"
        " in every replica and from the first step: a heavier part of the model"
    )
    return (Structure("stage-imbalance", facts.share_without(factor), text),)


def excess(facts: Facts) -> Floats | None:
    """(P,) share by which each stage computes longer than the middle of the others.

    0 where it does not in most replicas and steps; None with one stage or one replica.
    """
    usual = np.where(facts.slow, np.nan, facts.cells.usual)
    stages, replicas = usual.shape
    if stages < 2 or replicas < REPLICAS or np.isnan(usual).all(axis=1).any():
        return None
    steps = facts.cells.stage_steps
    found = np.zeros(stages)
    for stage in range(stages):
        others = np.arange(stages) != stage
        middle = float(np.nanmedian(usual[others]))
        if middle <= 0:
            return None
        by_replica = usual[stage] / middle - 1
        longer = steps[stage] > np.median(steps[others], axis=0)
        known = by_replica[np.isfinite(by_replica)]
        if (known > LONGER / 2).mean() >= ALIKE and longer.mean() >= ALIKE:
            found[stage] = float(np.median(known))
    return found
