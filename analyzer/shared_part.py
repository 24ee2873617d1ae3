"""The part that everything slow uses and nothing healthy does: set cover over the topology.

Reference 7, L4: "intersect slow groups: a rank, NIC or leaf shared by all slow groups and by no
healthy one".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analyzer.load.places import KINDS, Places

NODE = "node"
"""A group's members are parts themselves, the narrowest."""

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


def shared_parts(
    slow: Sequence[frozenset[str]], healthy: Sequence[frozenset[str]], places: Places
) -> tuple[Part, ...]:
    """Parts that every slow group uses and no healthy one, of the narrowest kind that has any.

    A group uses the parts of each of its nodes. Of several parts nobody knows which it is; without
    any, no single part explains the slow groups: several faults, or a fabric that is full.

    Args:
        slow: Groups whose transfers are slow, as sets of nodes; or slow nodes, one a group.
        healthy: The same of those that are as before. Who is not known is in neither.
        places: Where the nodes stand.
    """
    if not slow:
        return ()
    common = frozenset.intersection(*(_used(group, places) for group in slow))
    cleared = frozenset[Part]().union(*(_used(group, places) for group in healthy))
    left = common - cleared
    for kind in (NODE, *KINDS):
        found = sorted(part for part in left if part.kind == kind)
        if found:
            return tuple(found)
    return ()


def part_of_nodes(slow: Iterable[str], healthy: Iterable[str], places: Places) -> Part | None:
    """The one leaf or rack that all slow nodes share and no healthy node has.

    None with fewer than two slow or two healthy nodes: a single node is its own culprit, and where
    nearly all are slow it is no part of them.
    """
    bad, good = sorted(set(slow)), sorted(set(healthy) - set(slow))
    if len(bad) < 2 or len(good) < 2:
        return None
    standing = {
        node: {kind: name for kind, name in parts.items() if kind in DRAINED}
        for node, parts in places.items()
    }
    found = shared_parts(
        [frozenset({each}) for each in bad], [frozenset({each}) for each in good], standing
    )
    return found[0] if len(found) == 1 else None


def _used(group: Iterable[str], places: Places) -> frozenset[Part]:
    return frozenset(
        part
        for node in group
        for part in (
            Part(NODE, node),
            *(Part(kind, name) for kind, name in places.get(node, {}).items()),
        )
    )
