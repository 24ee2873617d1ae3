"""Which nodes exchange with which, and when: rounds of slots of pairs.

In a slot every node has one partner at most, so that nothing but the link itself and its two ends
decides how long a pair takes. A round is some slots and one agreement of all ranks. To see every
link takes nodes - 1 slots (Kirkman's round-robin, the circle method), in whatever rounds: 4 pairs
at a time cannot see the 28 links of 8 nodes in fewer than 7. All-to-alls inside halves that share
a bit of the node's number need as many rounds, but (nodes / 2 - 1) · log2(nodes) exchanges of each
node, and its link is shared by them.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

Pair = tuple[int, int]
"""Two nodes, the lower first."""
Slot = tuple[Pair, ...]
Round = tuple[Slot, ...]


def round_count(nodes: int) -> int:
    """ceil(log2(nodes)), and at least 1: the rounds in which every link is seen once."""
    return max(1, (nodes - 1).bit_length())


def matchings(nodes: int) -> tuple[Slot, ...]:
    """Every pair once; in each slot every node once, but for one that is idle if they are odd."""
    even = nodes + nodes % 2
    slots: list[Slot] = []
    for turn in range(even - 1):
        circle = [even - 1, *((turn + place) % (even - 1) for place in range(even - 1))]
        pairs = zip(circle[: even // 2], reversed(circle[even // 2 :]), strict=True)
        slots.append(tuple(sorted(_pair(*ends) for ends in pairs if max(ends) < nodes)))
    return tuple(slots)


@cache
def covering(nodes: int) -> tuple[Round, ...]:
    """Every link once, in `round_count` rounds of about as many slots."""
    slots, rounds = matchings(nodes), round_count(nodes)
    edges = [len(slots) * index // rounds for index in range(rounds + 1)]
    return tuple(slots[begin:end] for begin, end in pairwise(edges))


def packed(pairs: Iterable[Pair]) -> Round:
    """Some links as a round, each in the first slot that has both its ends free."""
    slots: list[list[Pair]] = []
    for pair in sorted(pairs):
        for slot in slots:
            if not _shares_a_node(pair, slot):
                slot.append(pair)
                break
        else:
            slots.append([pair])
    return tuple(tuple(slot) for slot in slots)


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def _shares_a_node(pair: Pair, slot: Sequence[Pair]) -> bool:
    return any(node in taken for taken in slot for node in pair)
