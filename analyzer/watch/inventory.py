"""What should be there: nodes, NVLinks and ports that were, in the last day."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

KEEP_SECONDS = 86_400.0
"""A node that is taken away for good is missed for a day."""

Names = tuple[str, ...]
Seen = Mapping[Names, tuple[float, float]]
"""Names -> (the most that was there at once, unix seconds at which something last was)."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """By (node,), by (node, gpu, uuid) and by (node, device, port)."""

    nodes: Seen = field(default_factory=dict)
    links: Seen = field(default_factory=dict)
    ports: Seen = field(default_factory=dict)


def seen(
    known: Seen, there: Iterable[tuple[Names, float]], now: float
) -> dict[Names, tuple[float, float]]:
    """With what is there now; what has not been for a day is forgotten.

    Args:
        known: As it was.
        there: Names and how many; none of them is not there.
        now: Unix seconds.
    """
    found = {name: one for name, one in known.items() if now - one[1] < KEEP_SECONDS}
    for name, count in there:
        if count > 0:
            found[name] = max(count, found.get(name, (0.0, 0.0))[0]), now
    return found
