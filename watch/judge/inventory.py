"""What should be there: nodes, NVLinks and ports that were, in the last day."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lockstep.watch.judge.hardware import Target, node_of

KEEP_SECONDS = 86_400.0
"""A node that is taken away for good is missed for a day."""

Names = tuple[str, ...]
Answer = Sequence[tuple[Mapping[str, str], float]]
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
    found = {name: one for name, one in known.items() if abs(now - one[1]) < KEEP_SECONDS}
    for name, count in there:
        if count > 0:
            found[name] = max(count, found.get(name, (0.0, 0.0))[0]), now
    return found


def updated(
    known: Inventory,
    pages: Answer,
    links: Answer | None,
    ports: Answer | None,
    names: Mapping[Target, str],
    now: float,
) -> Inventory:
    """What is there now joined to what was; nodes by the label that alerts know them by.

    Args:
        known: As it was.
        pages: Of each collector that was scraped.
        links: NVLinks up by GPU; None = not asked this time.
        ports: Whether ports are active; None as well.
        names: Names of nodes whose targets have no label `node`.
        now: Unix seconds.
    """

    def there(answer: Answer, *labels: str) -> list[tuple[Names, float]]:
        return [
            ((_node(told, names), *(told.get(label, "") for label in labels)), value)
            for told, value in answer
        ]

    nodes = [(node, 1.0) for node, _ in there(pages)]
    return Inventory(
        seen(known.nodes, nodes, now),
        known.links if links is None else seen(known.links, there(links, "gpu", "uuid"), now),
        known.ports if ports is None else seen(known.ports, there(ports, "device", "port"), now),
    )


def _node(labels: Mapping[str, str], names: Mapping[Target, str]) -> str:
    return labels.get("node", "") or node_of(labels, names)
