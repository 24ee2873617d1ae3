"""How often a node that alone holds a stage, and always was slower, is slow: BY_TIMES, counted.

Of the fleets of the hard level (SEEDS, injected and healthy) those are made in which each stage is
on one node, or some on the same. Each node of which times leave that open counts once: that
`stage_levels` finds, and no other observation explains. It is slow where a fault of the node was
there from the first step on.
"""

from lockstep.analyzer.stragglers.confidence import HEAVY
from lockstep.analyzer.stragglers.detectors.stage_levels import BY_TIMES
from lockstep.analyzer.verdict.case import opened
from lockstep.analyzer.verdict.pipeline import comparable, effects, operations, scopes, through
from lockstep.evaluation.synth.fleet import GPUS_PER_NODE, SyntheticFleet
from lockstep.evaluation.synth.hard_draw import hard
from lockstep.evaluation.synth.whole import labelled

SEEDS = range(1_400_000, 1_400_400)
ROUNDED = 0.005
"""BY_TIMES has two digits."""
GOALS = {"off_by": ROUNDED}


def main() -> dict[str, float]:
    """Nodes, of these slow ones, their share, and how far BY_TIMES is from it."""
    nodes = slow = 0
    for seed in SEEDS:
        for injected in (True, False):
            fleet = hard(seed, injected=injected)
            if alone(fleet):
                more, of_these = counted(fleet)
                nodes, slow = nodes + more, slow + of_these
    share = slow / nodes
    return {"nodes": nodes, "slow": slow, "share": share, "off_by": abs(share - BY_TIMES)}


def alone(fleet: SyntheticFleet) -> bool:
    """Whether of each stage all ranks are on one node, and there are two at least."""
    return fleet.nodes > 1 and GPUS_PER_NODE % (fleet.world // fleet.pp) == 0


def counted(fleet: SyntheticFleet) -> tuple[int, int]:
    """(nodes that alone hold a stage and always were slower, those of them that are slow)."""
    run = labelled(fleet)
    case = through((comparable, operations, effects, scopes), opened(run.run))
    found = {str(one.details["node"]) for one in case.findings if one.kind == HEAVY}
    faults = (each for each in run.truth if each["scope"] == "node")
    return len(found), len(found & {each["node"] for each in faults if each["from_step"] == 0})
