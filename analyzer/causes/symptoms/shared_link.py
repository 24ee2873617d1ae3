"""Whose link it is, by the data-parallel groups that are slow and those that are not."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.read.places import places_of
from lockstep.analyzer.shapes.run import Grid
from lockstep.analyzer.shapes.wording import NAMED
from lockstep.analyzer.stats.shared_part import DRAINED, Part, fewest_parts
from lockstep.analyzer.stats.transfers import SlowGroups


def suspects(grid: Grid, groups: SlowGroups) -> tuple[Part, ...]:
    """The parts of which each alone is in all slow groups and in no healthy one, the narrowest.

    A part is a node, a leaf or a rack (docs/method/waits.md); and, where the tensor-parallel ranks
    of each node are its GPUs in order, a rail: the NICs of one number on every node, over which all
    groups of one tp index go. Elsewhere each GPU may have a NIC of its own, so a healthy group over
    one GPU of a node does not clear another.

    One part accuses; of several it is not known which. Empty where it takes more than one part to
    explain the slow groups.
    """
    places = {
        node: {kind: name for kind, name in parts.items() if kind in DRAINED}
        for node, parts in places_of(grid.meta).items()
    }
    rails = _rails(grid)
    slow, healthy = (
        [_uses(grid, columns, rails) for columns in some] for some in (groups.slow, groups.healthy)
    )
    parts = fewest_parts(slow, healthy, places)
    return parts[0] if len(parts) == 1 else ()


def nodes_of(grid: Grid, part: Part) -> tuple[str, ...]:
    """The nodes of a leaf or rack; none of what is itself a node or a rail."""
    places = places_of(grid.meta)
    nodes = dict.fromkeys(info.node for info in grid.ranks)
    return tuple(node for node in nodes if places.get(node, {}).get(part.kind) == part.name)


def _uses(grid: Grid, columns: NDArray[np.int64], rails: Mapping[int, str]) -> frozenset[str]:
    members = [grid.ranks[column] for column in columns.tolist()]
    shared = {info.node for info in grid.ranks if info.local_rank > 0}
    return frozenset(info.node for info in members) | {
        rails[info.local_rank] if rails else f"GPU {info.local_rank} of {info.node}"
        for info in members
        if rails or info.node in shared
    }


def _rails(grid: Grid) -> Mapping[int, str]:
    """GPU number -> its rail in words; none where tensor-parallel groups are not whole nodes."""
    numbers = sorted({info.local_rank for info in grid.ranks})
    if len(numbers) < 2 or any(info.local_rank != info.tp for info in grid.ranks):
        return {}
    return {number: f"rail {number} (GPU {number} of every node)" for number in numbers}


def listed(parts: Sequence[Part]) -> str:
    """In words; of many their number and the first."""
    names = [str(part) for part in parts]
    if len(names) > NAMED:
        return f"{len(names)} parts, {names[0]} among them,"
    return " or ".join(names)
