"""Stacks of several ranks merged into a prefix tree: who stands where.

As STAT merges the stacks of parallel programs (Arnold et al., "Stack Trace Analysis for Large Scale
Debugging", IPDPS 2007): ranks share a node as long as all their calls from the outermost on are the
same, and part where one differs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from lockstep.analyzer.hangs.frames import key, shown
from lockstep.collector.contract.stacks import Frame

MOST_SHOWN = 16
"""Calls that ranks share, in the table; the JSON has them all."""


@dataclass(frozen=True, slots=True)
class Node:
    """Ranks that stand in the same calls, and where they part.

    Attributes:
        ranks: Ascending.
        frames: The calls that all of them are in below the parent's, the outermost first.
        children: By first rank; ranks of none of them stand in the last of the frames.
    """

    ranks: tuple[int, ...]
    frames: tuple[Frame, ...]
    children: tuple["Node", ...] = ()


def merged(stacks: Mapping[int, Sequence[Frame]]) -> Node:
    """The tree of all stacks, by rank, the outermost call first.

    Every rank's calls are those along its way, and of two siblings the first calls differ.
    """
    ranks = tuple(sorted(stacks))
    if not ranks:
        return Node((), ())
    keys = {rank: [key(one) for one in stacks[rank]] for rank in ranks}
    levels = zip(*keys.values(), strict=False)
    common = sum(1 for _ in takewhile(lambda calls: len(set(calls)) == 1, levels))
    by_next: dict[Any, dict[int, Sequence[Frame]]] = {}
    for rank in ranks:
        if len(keys[rank]) > common:
            by_next.setdefault(keys[rank][common], {})[rank] = stacks[rank][common:]
    return Node(
        ranks, tuple(stacks[ranks[0]][:common]), tuple(merged(some) for some in by_next.values())
    )


def as_tree(node: Node) -> dict[str, Any]:
    """As JSON."""
    return {
        "ranks": list(node.ranks),
        "calls": [shown(one) for one in node.frames],
        "children": [as_tree(each) for each in node.children],
    }
