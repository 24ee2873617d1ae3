"""The part that everything slow uses and nothing healthy does: set cover over the topology.

docs/method/waits.md: slow groups are intersected.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lockstep.analyzer.read.places import KINDS, Places

NODE = "node"
"""A group's members are parts themselves, the narrowest."""

ORDER = (NODE, *KINDS)
"""The narrowest kind first."""
DRAINED = ("leaf", "rack")
"""Where nodes stand. Storage slows those that use it by their data, whichever they are."""


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A node, leaf, rack or storage, by name."""

    kind: str
    name: str

    def __str__(self) -> str:
        """As people say it; a rack's name alone may look like a node's."""
        return self.name if self.kind == NODE else f"{self.kind} {self.name}"


def fewest_parts(
    slow: Sequence[frozenset[str]], healthy: Sequence[frozenset[str]], places: Places
) -> tuple[tuple[Part, ...], ...]:
    """The fewest parts that explain all slow groups: each with those that might be it as well.

    Greedy set cover (Chvatal 1979): the part that most unexplained groups use and no healthy one
    does, the narrowest of those; and again. Parts of one kind that explain the same groups are
    alternatives. Empty where a group has no such part: then nothing is explained.

    Args:
        slow: Groups whose transfers are slow, as sets of nodes; or slow nodes, one a group.
        healthy: The same of those that are as before. Who is not known is in neither.
        places: Where the nodes stand.
    """
    cleared = frozenset[Part]().union(*(_used(group, places) for group in healthy))
    left = [_used(group, places) - cleared for group in slow]
    found = []
    while left:
        explained = {
            part: tuple(number for number, parts in enumerate(left) if part in parts)
            for part in sorted(frozenset().union(*left))
        }
        if not explained:
            return ()
        best = min(explained, key=lambda part: (-len(explained[part]), ORDER.index(part.kind)))
        found.append(tuple(
            part for part, groups in explained.items()
            if part.kind == best.kind and groups == explained[best]
        ))  # fmt: skip
        left = [parts for parts in left if best not in parts]
    return tuple(found)


def parts_of_nodes(slow: Iterable[str], healthy: Iterable[str], places: Places) -> tuple[Part, ...]:
    """The fewest leaves or racks that the slow nodes are, two or more of each, and no healthy one.

    Empty with fewer than two slow or two healthy nodes: a single node is its own culprit, and where
    nearly all are slow it is no part of them. So too where a slow node stands alone in its part.
    """
    bad, good = sorted(set(slow)), sorted(set(healthy) - set(slow))
    if len(bad) < 2 or len(good) < 2:
        return ()
    standing = {
        node: {kind: name for kind, name in parts.items() if kind in DRAINED}
        for node, parts in places.items()
    }
    groups = [[frozenset({each}) for each in some] for some in (bad, good)]
    found = fewest_parts(groups[0], groups[1], standing)
    if any(len(each) > 1 or each[0].kind == NODE for each in found):
        return ()
    return tuple(sorted(each[0] for each in found))


def _used(group: Iterable[str], places: Places) -> frozenset[Part]:
    return frozenset(
        part
        for node in group
        for part in (
            Part(NODE, node),
            *(Part(kind, name) for kind, name in places.get(node, {}).items()),
        )
    )
